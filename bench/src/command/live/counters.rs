//! Counters of nodes and of the system: metrics, processor time, bytes of an interface.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::client::Client;
use binomesh::cluster::Member;

use crate::command::Failure;

/// The counters of one node at one moment: series by name and labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters(BTreeMap<String, f64>);

impl Counters {
    /// Scrape a node over its admin socket.
    pub async fn scrape(client: &Client) -> Result<Self, Failure> {
        let text = client.text("/metrics").await.map_err(Failure::run)?;
        Ok(Self::parse(&text))
    }

    /// Scrape all these nodes.
    pub async fn scrape_all(members: &[Member]) -> Result<Vec<Self>, Failure> {
        let mut all = Vec::new();
        for member in members {
            all.push(Self::scrape(&member.client()).await?);
        }
        Ok(all)
    }

    fn parse(text: &str) -> Self {
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let series = series.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(series.collect())
    }

    /// The sum of the series of a metric that have this label, such as `class="packet"`. An empty
    /// label takes all series.
    pub fn total(&self, metric: &str, label: &str) -> f64 {
        let wanted = |name: &str| {
            let rest = name.strip_prefix(metric);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
                && name.contains(label)
        };
        let values = self.0.iter().filter(|(name, _)| wanted(name));
        values.map(|(_, value)| value).sum()
    }
}

/// How much each kind of a metric with the label `kind` grew, summed over nodes.
pub fn growth_by_kind(
    before: &[Counters],
    after: &[Counters],
    metric: &str,
) -> BTreeMap<String, f64> {
    let series = after.iter().flat_map(|counters| counters.0.keys());
    let series = series.filter_map(|series| series.strip_prefix(metric));
    let kinds: BTreeSet<&str> = series
        .filter_map(|labels| labels.split_once("kind=\"")?.1.split('"').next())
        .collect();
    let grown = |kind: &str| growth(before, after, metric, &format!("kind=\"{kind}\""));
    let kinds = kinds.into_iter();
    kinds.map(|kind| (kind.to_owned(), grown(kind))).collect()
}

/// How much the series of a metric with this label grew, summed over nodes. An empty label takes
/// all series.
pub fn growth(before: &[Counters], after: &[Counters], metric: &str, label: &str) -> f64 {
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| after.total(metric, label) - before.total(metric, label))
        .sum()
}

/// The processor time that a process has used, in user and kernel.
pub fn processor_time(pid: u32) -> Result<Duration, Failure> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| Failure::Run(format!("cannot read {path}: {error}")))?;
    let ticks = ticks(&text).ok_or_else(|| {
        Failure::Run(format!(
            "{path} has no processor times in its fields 14 and 15"
        ))
    })?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// utime and stime are the 14th and 15th field. The second field, the program's name in
/// parentheses, may have any text.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

/// The traffic that the loopback interface of this process's network namespace has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loopback {
    /// The number of bytes, IP headers included. The interface has no link layer to count.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
}

impl Loopback {
    /// Read the interface's counters.
    pub fn read() -> Result<Self, Failure> {
        let path = "/proc/self/net/dev";
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::Run(format!("cannot read {path}: {error}")))?;
        Self::parse(&text)
            .ok_or_else(|| Failure::Run(format!("{path} names no loopback interface")))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim_start);
        let line = lines.find_map(|line| line.strip_prefix("lo:"))?;
        let mut sent = line.split_whitespace().skip(8);
        Some(Self {
            bytes: sent.next()?.parse().ok()?,
            packets: sent.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_by_name_and_label() {
        let text = "# TYPE a counter\na{class=\"x\",node=\"n\"} 3\na{class=\"y\",node=\"n\"} 4\n\
                    ab{class=\"x\"} 50\nc 1.5\n";
        let counters = Counters::parse(text);
        assert_eq!(counters.total("a", ""), 7.0);
        assert_eq!(counters.total("a", "class=\"x\""), 3.0);
        assert_eq!(counters.total("c", ""), 1.5);
        let later = Counters::parse("a{class=\"x\"} 10\nc 2\n");
        assert_eq!(growth(&[counters], &[later], "c", ""), 0.5);
    }

    #[test]
    fn the_system_is_read_at_the_right_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 20 0";
        assert_eq!(ticks(stat), Some(333));
        let dev = "Inter-| Receive | Transmit\n face |bytes\n  eth0: 9 9 9 9 9 9 9 9 9 9\n    \
                   lo: 1 2 3 4 5 6 7 8 900 10 0 0 0 0 0 0\n";
        let sent = Loopback::parse(dev).unwrap();
        assert_eq!((sent.bytes, sent.packets), (900, 10));
        assert!(processor_time(std::process::id()).is_ok());
    }
}
