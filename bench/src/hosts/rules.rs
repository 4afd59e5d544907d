//! Losses at the bridge, as rules of nftables.
//!
//! Datagrams from a host and to it are dropped at the bridge, so no sender is told of a loss. With
//! a rule in the host, the sender's system call would fail.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::fault::Share;

/// The input of `nft` that sets these losses and removes all others, in one transaction.
pub(super) fn ruleset(losses: &BTreeMap<u32, Share>) -> String {
    // A table can only be deleted if it exists.
    let mut text = "table bridge losses\ndelete table bridge losses\n".to_owned();
    if losses.is_empty() {
        return text;
    }
    text.push_str("table bridge losses {\n");
    for (chain, hook, direction) in [
        ("sent", "prerouting", "iifname"),
        ("received", "postrouting", "oifname"),
    ] {
        let _ = writeln!(text, "chain {chain} {{ type filter hook {hook} priority 0;");
        for (host, share) in losses {
            let _ = write!(text, "{direction} \"host{host}\" meta l4proto udp ");
            // Every number is less than the whole, and `nft` refuses to compare with it.
            if share.parts() < Share::ALL {
                let _ = write!(
                    text,
                    "numgen random mod {} < {} ",
                    Share::ALL,
                    share.parts()
                );
            }
            text.push_str("counter drop\n");
        }
        text.push_str("}\n");
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_rule_for_each_direction_and_none_is_left_without_losses() {
        let losses = [("3", "5%"), ("12", "0.5%"), ("4", "100%")].map(|(host, share)| {
            let share: Share = share.parse().unwrap();
            (host.parse().unwrap(), share)
        });
        let text = ruleset(&losses.into());
        for rule in [
            "iifname \"host3\" meta l4proto udp numgen random mod 10000 < 500 counter drop",
            "oifname \"host4\" meta l4proto udp counter drop",
            "oifname \"host12\" meta l4proto udp numgen random mod 10000 < 50 counter drop",
        ] {
            assert_eq!(text.matches(rule).count(), 1, "{text}");
        }
        let none = ruleset(&BTreeMap::new());
        assert!(none.ends_with("delete table bridge losses\n"), "{none}");
    }
}
