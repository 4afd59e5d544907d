//! A schedule as a picture: one panel per step, with the graph and the messages of the step.
//!
//! An arrow goes along the whole path of a message, on the right side of each link, so that the two
//! directions of a link differ. Colours stand for messages: for blocks, for the origins of an
//! all-to-all broadcast or a gather, or for the destinations of a scatter. If there is only one
//! message, colours stand for the nodes that arrows begin at.

use binomesh_routing::schedule::{Collective, Message, Move, Schedule, Topology};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::layout::{Point, layout};
use crate::figure::chart::{COLOURS, DrawingError};

/// The most panels of a picture.
pub(super) const PANELS_MAX: u32 = 120;
/// The most nodes of a graph that is drawn.
pub(super) const NODES_MAX: usize = 256;

const CAPTION: u32 = 62;
const MARGIN: f64 = 30.0;
const TITLE: f64 = 20.0;
const INK: RGBColor = RGBColor(34, 34, 34);
const LINK: RGBColor = RGBColor(214, 214, 214);
const BROKEN: RGBColor = RGBColor(190, 30, 30);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A schedule and its remark.
pub(super) struct Picture<'a> {
    /// The schedule that is drawn.
    pub(super) schedule: &'a Schedule,
    /// The graph of the schedule, without faults.
    pub(super) graph: &'a Topology,
    /// The remark in the caption: the steps and, after a search, the lower bound and the method.
    pub(super) remark: String,
}

/// The parts that all panels share.
struct Map<'a> {
    graph: &'a Topology,
    rest: Topology,
    points: Vec<Point>,
    side: u32,
    radius: f64,
}

impl Picture<'_> {
    /// The picture as an SVG document.
    pub(super) fn draw(&self) -> Result<String, DrawingError> {
        let count = self.graph.node_count();
        let side = 200 + 10 * (count.min(100) as u32);
        let steps = self.schedule.steps.max(1);
        let columns = steps.min((1500 / side).max(2));
        let width = (columns * side).max(560);
        let size = (width, CAPTION + steps.div_ceil(columns) * side);
        let rest = self.graph.with_faults(&self.schedule.faults);
        let map = Map {
            graph: self.graph,
            rest: rest.unwrap_or_else(|_| self.graph.clone()),
            points: layout(self.graph),
            side,
            radius: if count > 64 { 5.0 } else { 10.0 },
        };
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            self.draw_caption(&root)?;
            for step in 1..=steps {
                let (row, column) = ((step - 1) / columns, (step - 1) % columns);
                let corner = (column * side, CAPTION + row * side);
                let area = root.clone().shrink(corner, (side, side));
                self.draw_step(&area, &map, step)?;
            }
            root.present()?;
        }
        Ok(svg)
    }

    fn draw_caption(&self, area: &Area<'_>) -> Result<(), DrawingError> {
        let one = self.schedule;
        let source = one.source.as_ref();
        let source = source.map_or(String::new(), |node| format!(" of node {node}"));
        let blocks = match one.blocks {
            1 => String::new(),
            blocks => format!(", {blocks} blocks"),
        };
        let first = format!("{}: {}{source}{blocks}", one.graph, one.collective);
        let second = format!("{}, ports {}; {}", one.model, one.ports, self.remark);
        let style = |size| ("sans-serif", size).into_font().color(&INK);
        area.draw(&Text::new(first, (14, 10), style(20)))?;
        area.draw(&Text::new(second, (14, 36), style(15)))
    }

    fn draw_step(&self, area: &Area<'_>, map: &Map<'_>, step: u32) -> Result<(), DrawingError> {
        let moves = self.schedule.moves.iter().filter(|one| one.step == step);
        let moves: Vec<&Move> = moves.collect();
        let title = format!("step {step}");
        let style = ("sans-serif", 15).into_font().color(&INK);
        area.draw(&Text::new(title, (14, 2), style))?;
        map.draw_links(area)?;
        for one in moves {
            map.draw_arrow(area, &one.path, self.colour(one))?;
        }
        map.draw_nodes(area)
    }

    fn colour(&self, one: &Move) -> RGBColor {
        let number = |name: &str| self.graph.node(name).unwrap_or(0);
        let is_pair = !self.schedule.collective.is_broadcast();
        let look = match &one.message {
            Message::Block(block) if self.schedule.blocks > 1 => *block as usize,
            Message::Between(from, _) if self.schedule.collective == Collective::Aog => {
                number(from)
            }
            Message::Between(_, to) => number(to),
            _ if self.schedule.collective == Collective::Oab => number(&one.from),
            _ if is_pair && self.schedule.collective != Collective::Aog => number(&one.to),
            Message::Of(origin) => number(origin),
            Message::Block(name) => number(&name.to_string()),
        };
        COLOURS[look % COLOURS.len()]
    }
}

impl Map<'_> {
    /// The place of a node in its panel.
    fn at(&self, node: usize) -> Point {
        let room = f64::from(self.side) - 2.0 * MARGIN - TITLE / 2.0;
        let (right, down) = self.points[node];
        (MARGIN + right * room, MARGIN + TITLE / 2.0 + down * room)
    }

    /// A curve from one node to another, `beside` pixels to the right of the straight line. It
    /// bends round a node that is between them.
    fn curve(&self, from: usize, to: usize, beside: f64) -> Vec<Point> {
        let (start, end) = (self.at(from), self.at(to));
        let along = (end.0 - start.0, end.1 - start.1);
        let length = along.0.hypot(along.1).max(1e-9);
        let unit = (along.0 / length, along.1 / length);
        let right = (-unit.1, unit.0);
        let is_between = |node: usize| {
            let here = self.at(node);
            let there = (here.0 - start.0, here.1 - start.1);
            let ahead = there.0 * unit.0 + there.1 * unit.1;
            let aside = there.0 * right.0 + there.1 * right.1;
            node != from && node != to && ahead > 0.0 && ahead < length && aside.abs() < self.radius
        };
        let is_hidden = (0..self.points.len()).any(is_between);
        // Both directions of a link bend to the same side.
        let sign = if from < to { 1.0 } else { -1.0 };
        let bend = if is_hidden {
            sign * (length * 0.14).min(34.0)
        } else {
            0.0
        };
        let pieces = if is_hidden { 12 } else { 1 };
        let point = |piece: u32| {
            let part = f64::from(piece) / f64::from(pieces);
            let aside = beside + bend * 4.0 * part * (1.0 - part);
            let ahead = part * length;
            let right_of = (start.0 + right.0 * aside, start.1 + right.1 * aside);
            (right_of.0 + unit.0 * ahead, right_of.1 + unit.1 * ahead)
        };
        (0..=pieces).map(point).collect()
    }

    fn draw_links(&self, area: &Area<'_>) -> Result<(), DrawingError> {
        for (from, to) in self.graph.channels() {
            let is_both = self.graph.channel(*to, *from).is_some();
            if is_both && to < from {
                continue;
            }
            let line = pixels(&self.curve(*from, *to, 0.0));
            let is_healthy = self.rest.channel(*from, *to).is_some();
            let colour = if is_healthy { LINK } else { BROKEN };
            area.draw(&PathElement::new(line.clone(), colour.stroke_width(1)))?;
            if !is_healthy {
                let (one, other) = (line[(line.len() - 1) / 2], line[line.len() / 2]);
                let middle = ((one.0 + other.0) / 2, (one.1 + other.1) / 2);
                area.draw(&Cross::new(middle, 5, BROKEN.stroke_width(2)))?;
            }
        }
        Ok(())
    }

    /// Draw an arrow along a path, with a head at its end.
    fn draw_arrow(
        &self,
        area: &Area<'_>,
        path: &[String],
        colour: RGBColor,
    ) -> Result<(), DrawingError> {
        let nodes = path.iter().map(|name| self.graph.node(name));
        let Some(nodes) = nodes.collect::<Option<Vec<usize>>>() else {
            return Ok(());
        };
        let beside = if self.radius > 6.0 { 3.5 } else { 2.0 };
        let pieces = nodes.windows(2);
        let mut line: Vec<Point> = pieces
            .flat_map(|pair| self.curve(pair[0], pair[1], beside))
            .collect();
        let (Some(end), true) = (line.pop(), line.len() > 1 || nodes.len() == 2) else {
            return Ok(());
        };
        let before = line.last().copied().unwrap_or(end);
        let along = (end.0 - before.0, end.1 - before.1);
        let length = along.0.hypot(along.1).max(1e-9);
        let unit = (along.0 / length, along.1 / length);
        // The tip touches the node's circle.
        let back = |by: f64, aside: f64| {
            let ahead = (end.0 - unit.0 * by, end.1 - unit.1 * by);
            (ahead.0 - unit.1 * aside, ahead.1 + unit.0 * aside)
        };
        let head = self.radius * 0.8;
        line.push(back(self.radius + head, 0.0));
        area.draw(&PathElement::new(pixels(&line), colour.stroke_width(2)))?;
        let corners = [
            back(self.radius, 0.0),
            back(self.radius + head, head / 2.0),
            back(self.radius + head, -head / 2.0),
        ];
        area.draw(&Polygon::new(pixels(&corners), colour.filled()))
    }

    fn draw_nodes(&self, area: &Area<'_>) -> Result<(), DrawingError> {
        for node in 0..self.graph.node_count() {
            let at = pixels(&[self.at(node)])[0];
            let is_faulty = self.rest.is_faulty(node);
            let radius = self.radius as i32;
            let colour = if is_faulty { BROKEN } else { INK };
            area.draw(&Circle::new(at, radius, WHITE.filled()))?;
            area.draw(&Circle::new(at, radius, colour.stroke_width(1)))?;
            let name = self.graph.node_name(node);
            let size = match name.chars().count() {
                _ if self.radius < 6.0 => 7,
                ..=2 => 11,
                3 => 9,
                _ => 6,
            };
            let style = ("sans-serif", size).into_font().color(&INK);
            let style = style.pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(name, at, style))?;
            if is_faulty {
                area.draw(&Cross::new(at, radius, BROKEN.stroke_width(2)))?;
            }
        }
        Ok(())
    }
}

fn pixels(points: &[Point]) -> Vec<(i32, i32)> {
    let round = |point: &Point| (point.0.round() as i32, point.1.round() as i32);
    points.iter().map(round).collect()
}
