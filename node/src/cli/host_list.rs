//! Folds many names into a short host list.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Names as a short host list: names that differ only in the number at their end share brackets.
pub(super) fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut numbered: BTreeSet<(&str, usize, Option<u32>)> = BTreeSet::new();
    for name in names {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[prefix.len()..];
        match digits.parse() {
            Ok(number) if digits.len() <= 9 => {
                let is_padded = digits.starts_with('0') && digits.len() > 1;
                let width = if is_padded { digits.len() } else { 1 };
                numbered.insert((prefix, width, Some(number)));
            }
            _ => _ = numbered.insert((name, 0, None)),
        }
    }
    let mut folded = Vec::new();
    let mut all = numbered.into_iter().peekable();
    while let Some((prefix, width, number)) = all.next() {
        let Some(first) = number else {
            folded.push(prefix.to_owned());
            continue;
        };
        let mut runs = vec![(first, first)];
        while let Some((_, _, Some(next))) =
            all.next_if(|(other, w, n)| (*other, *w) == (prefix, width) && n.is_some())
        {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == next => *last = next,
                _ => runs.push((next, next)),
            }
        }
        folded.push(written(prefix, width, &runs));
    }
    folded.join(",")
}

fn written(prefix: &str, width: usize, runs: &[(u32, u32)]) -> String {
    if let [(first, last)] = runs
        && first == last
    {
        return format!("{prefix}{first:0width$}");
    }
    let mut text = format!("{prefix}[");
    for (place, (first, last)) in runs.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = match first == last {
            true => write!(text, "{comma}{first:0width$}"),
            false => write!(text, "{comma}{first:0width$}-{last:0width$}"),
        };
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Inventory;

    #[test]
    fn folded_names_mean_the_same() {
        for (names, text) in [
            (&[][..], ""),
            (&["b", "a"], "a,b"),
            (&["n1", "n2", "n3", "n7"], "n[1-3,7]"),
            (&["n08", "n09", "n10", "n11"], "n[10-11],n[08-09]"),
            (&["node-0"], "node-0"),
            (&["x12345678901"], "x12345678901"),
        ] {
            let folded = fold(names.iter().copied());
            assert_eq!(folded, text);
            let mut sorted: Vec<String> = names.iter().map(ToString::to_string).collect();
            sorted.sort_unstable();
            assert_eq!(Vec::from(folded.parse::<Inventory>().unwrap()), sorted);
        }
    }
}
