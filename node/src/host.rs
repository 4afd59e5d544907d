//! The loop of a node that is alone: a ring of one, with rank 0 and no links.

use std::net::UdpSocket;

use binomesh_overlay::Epoch;

use crate::command::{Command, Outgoing, SendError};
use crate::node::{Opened, Seat, StartError};
use crate::report::{NodeReport, PlacementView, Receipt, epoch_name};
use crate::subscription::{Message, Subscribers};

/// Bind the node's address and prepare its loop.
pub(crate) fn open(seat: Seat) -> Result<Opened, StartError> {
    let bind = seat.config.bind;
    let failed = |source| StartError::Bind {
        address: bind,
        source,
    };
    let socket = UdpSocket::bind(bind).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let address = seat.config.advertise.first().copied().unwrap_or(bound);
    let (id, boot) = (seat.credentials.id(), seat.state.boot);
    let epoch = epoch_name(&Epoch {
        root: id,
        boot,
        counter: 0,
        nonce: 0,
    });
    let lone = Lone {
        report: NodeReport {
            name: seat.config.name.clone(),
            id,
            pid: std::process::id(),
            boot,
            address,
            rank: Some(0),
            epoch: Some(epoch),
            population: Some(1),
            parent: None,
            children: Vec::new(),
            successor: Some(seat.config.name.clone()),
            predecessor: Some(seat.config.name.clone()),
            clockwise: Vec::new(),
            counterclockwise: Vec::new(),
            links: Vec::new(),
            healthy: true,
            reason: None,
        },
        subscribers: Subscribers::default(),
        sequence: 0,
    };
    let run = Box::pin(async move {
        let _held = socket;
        lone.run(seat).await;
    });
    Ok(Opened { address, run })
}

struct Lone {
    report: NodeReport,
    subscribers: Subscribers,
    sequence: u64,
}

impl Lone {
    async fn run(mut self, mut seat: Seat) {
        seat.placement.send_replace(Some(PlacementView {
            epoch: self.report.epoch.clone().unwrap_or_default(),
            population: 1,
            rank: 0,
            settled: true,
        }));
        tracing::debug!(recorded = seat.recorder.is_some(), "alone");
        loop {
            let command = tokio::select! {
                biased;
                () = seat.stop.cancelled() => return,
                command = seat.commands.recv() => command,
            };
            match command {
                None => return,
                Some(Command::Leave { drain, reply }) => {
                    tracing::debug!(?drain, "nothing is open, leaving");
                    let _ = reply.send(());
                    return;
                }
                Some(command) => self.handle(command),
            }
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Report { reply } => {
                let _ = reply.send(self.report.clone());
            }
            Command::Send { to, outgoing } => {
                let strangers = to.iter().map(ToString::to_string).collect();
                let _ = outgoing.reply.send(Err(SendError::UnknownPeers(strangers)));
            }
            Command::Publish(outgoing) => self.publish(outgoing),
            Command::Subscribe { subscriber, reply } => {
                if self.subscribers.admit(subscriber) {
                    let _ = reply.send(());
                }
            }
            Command::Leave { .. } => {}
        }
    }

    fn publish(&mut self, outgoing: Outgoing) {
        self.sequence += 1;
        let id = format!("{}-{}-{}", self.report.id, self.report.boot, self.sequence);
        let message = Message {
            id: id.clone(),
            origin: self.report.id,
            origin_name: self.report.name.clone(),
            sequence: self.sequence,
            topic: outgoing.topic,
            payload: outgoing.payload,
        };
        let delivered = self.subscribers.offer(&message).is_delivered();
        tracing::debug!(id, delivered, timeout = ?outgoing.timeout, "published alone");
        let _ = outgoing.reply.send(Ok(Receipt {
            id,
            epoch: self.report.epoch.clone().unwrap_or_default(),
            origin: self.report.name.clone(),
            expected_count: 0,
            reached_count: 0,
            reached: Vec::new(),
            unreached: Vec::new(),
            absent: Vec::new(),
            redelegated: 0,
            elapsed_seconds: 0.0,
        }));
    }
}
