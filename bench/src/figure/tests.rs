use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::*;
use crate::command::figures::row_of;
use crate::figure::report::Drawn;

const SCALE: Scale = Scale {
    is_quick: true,
    nodes_max: 64,
    seed: 1,
};

/// The rows of all `converge` lines, which take little time. Other lines are not run.
fn laboratory() -> &'static Laboratory {
    static ROWS: OnceLock<Laboratory> = OnceLock::new();
    ROWS.get_or_init(|| {
        let lines: BTreeSet<String> = Figure::all(&SCALE)
            .iter()
            .flat_map(Figure::lines)
            .filter(|line| line.starts_with("converge"))
            .cloned()
            .collect();
        let lines: Vec<String> = lines.into_iter().collect();
        Laboratory::run(&[], &lines, row_of, |_, _, _| {}).unwrap()
    })
}

fn figure(key: &str) -> Figure {
    let mut figures = Figure::all(&SCALE).into_iter();
    figures.find(|figure| figure.key == key).unwrap()
}

fn holds(key: &str, laboratory: &Laboratory) -> Vec<bool> {
    let claims = (figure(key).claims)(&SCALE, laboratory);
    claims.iter().map(|claim| claim.holds).collect()
}

#[test]
fn keys_and_files_are_unique() {
    let figures = Figure::all(&SCALE);
    let keys: BTreeSet<&str> = figures.iter().map(|figure| figure.key).collect();
    assert_eq!(keys.len(), figures.len());
    let charts = || figures.iter().flat_map(|figure| &figure.charts);
    let files: BTreeSet<&str> = charts().map(|chart| chart.file).collect();
    assert_eq!(files.len(), charts().count());
}

#[test]
fn without_rows_nothing_holds() {
    let nothing = Laboratory::default();
    for figure in Figure::all(&SCALE) {
        for claim in (figure.claims)(&SCALE, &nothing) {
            assert!(!claim.holds, "{}: {}", figure.key, claim.said);
        }
    }
}

#[test]
fn verdicts_follow_the_rows() {
    let rows = laboratory();
    // The row that is changed, and the claim that must turn.
    let slow = "converge --shape binomial --nodes 64 --scheduler async";
    let ring = "converge --shape binomial --nodes 32 --scheduler sync";
    let binary = "converge --shape binary --nodes 63 --scheduler sync";
    let repeated =
        "converge --shape binomial --nodes 256 --scheduler async --forwarding literal --repeat";
    let clique = "converge --bootstrap clique --procedure sorted --nodes 64 --seeds 50 --seed 1";
    let drawn = "converge --bootstrap graph --graph random:200,4 --root drawn --seeds 20 --seed 1";
    let cases = [
        ("bmg09-2a", 0, slow, "seconds_at_50us", 0.021),
        ("bmg09-2b", 0, ring, "ring_phases", 5.0),
        ("bmg09-2b", 2, binary, "ring_phases", 9.0),
        ("bmg09-2b", 3, binary, "bmg_phases", 40.0),
        ("bmg09-3", 1, slow, "received_max", 1e7),
        ("fc", 3, clique, "messages_per_node_mean", 99.0),
        ("fc", 4, drawn, "rounds_mean", 1.0),
        ("corrections", 0, slow, "up_dn_received_max", 99.0),
        ("corrections", 2, repeated, "repeated_up_dn_min", 8.0),
    ];
    for (key, claim, line, field, number) in cases {
        assert!(
            rows.number(line, field).is_finite(),
            "{line} has no {field}"
        );
        let (before, after) = (
            holds(key, rows),
            holds(key, &rows.clone().with(line, field, number)),
        );
        for (place, (before, after)) in before.into_iter().zip(after).enumerate() {
            // Other claims look at the same row and may turn too. Only the named one must turn.
            assert!(
                place != claim || before != after,
                "{key}, claim {place}, {field}"
            );
        }
    }
}

#[test]
fn a_claim_says_why_it_differs() {
    let claim = |holds| Claim::new("so it is", holds, "it is so", "It is not.");
    assert_eq!(claim(true).sentence(), "Holds: it is so.");
    assert_eq!(claim(false).sentence(), "Differs: it is so. It is not.");
    assert_eq!(verdict(&[claim(true), claim(true)]), "holds");
    assert_eq!(verdict(&[claim(true), claim(false)]), "holds in part");
    assert_eq!(verdict(&[claim(false)]), "differs");
}

#[test]
fn a_chart_shows_each_curve_with_its_name() {
    for figure in Figure::all(&SCALE)
        .iter()
        .filter(|figure| figure.key.starts_with("bmg09"))
    {
        for chart in &figure.charts {
            let image = chart.draw(laboratory()).unwrap();
            let names = chart.curves.iter().map(|curve| curve.label.as_str());
            let labels = [chart.x.label, chart.y.label];
            for text in names.chain(labels).chain(chart.limit.map(|limit| limit.1)) {
                assert!(image.contains(text), "{}: {text}", chart.file);
            }
            assert!(
                chart
                    .curves
                    .iter()
                    .all(|curve| curve.points(laboratory()).len() > 1)
            );
        }
    }
}

#[test]
fn text_in_a_report_does_not_become_markup() {
    let drawn = Drawn {
        figure: figure("bmg09-2a"),
        images: Vec::new(),
        claims: vec![Claim::new("<script>", true, "a & b", "")],
    };
    let page = report::page(&SCALE, "x", &[drawn], laboratory());
    assert!(page.contains("&lt;script&gt;") && page.contains("a &amp; b"));
    assert!(!page.contains("<script"));
}
