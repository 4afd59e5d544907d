//! Folded host lists, such as `c[001-300],login-[1,3-4]`, as Slurm and ClusterShell write them.
//! Brackets that contain a colon are no ranges: they belong to an IPv6 address.

/// The most bytes of a name. A guess: more than twice those of any DNS name. Many longer names
/// would fill the memory.
pub(crate) const BYTES_MAX: usize = 512;

/// Expand a folded list to its names, in its order. The error is the problem in words; a list of
/// more than `max` names is an error as well.
pub(crate) fn expand(text: &str, max: usize) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for item in items(text)? {
        let mut names = vec![String::new()];
        let pieces = pieces(item)?;
        let longest = pieces.iter().map(Piece::longest);
        if longest.fold(0, usize::saturating_add) > BYTES_MAX {
            return Err(format!(
                "a name in the list is longer than {BYTES_MAX} bytes"
            ));
        }
        for piece in pieces {
            let count = names.len().saturating_mul(piece.count());
            if count.saturating_add(all.len()) > max {
                return Err(format!("the list has more than {max} hosts"));
            }
            let with = |name: &String| piece.texts(name).collect::<Vec<String>>();
            names = names.iter().flat_map(with).collect();
        }
        all.append(&mut names);
    }
    Ok(all)
}

/// The items of a list, which are separated by commas outside brackets.
fn items(text: &str) -> Result<Vec<&str>, String> {
    let mut is_inside = false;
    for bracket in text.chars().filter(|c| matches!(c, '[' | ']')) {
        if is_inside == (bracket == '[') {
            return Err("the brackets do not match".to_owned());
        }
        is_inside = !is_inside;
    }
    if is_inside {
        return Err("the brackets do not match".to_owned());
    }
    let outside = text.split(|c| {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        c == ',' && !is_inside
    });
    Ok(outside
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect())
}

/// A piece of a name: a text, or ranges of numbers.
enum Piece<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

/// The numbers from the first to the last, written with at least `width` digits.
struct Range {
    first: u32,
    last: u32,
    width: usize,
}

impl Piece<'_> {
    fn count(&self) -> usize {
        let Self::Ranges(ranges) = self else { return 1 };
        let counts = ranges
            .iter()
            .map(|range| (range.last - range.first) as usize + 1);
        counts.fold(0, usize::saturating_add)
    }

    /// The most bytes that this piece adds to a name.
    fn longest(&self) -> usize {
        let digits = |range: &Range| range.width.max(range.last.to_string().len());
        match self {
            Self::Text(text) => text.len(),
            Self::Ranges(ranges) => ranges.iter().map(digits).max().unwrap_or(0),
        }
    }

    /// All names that begin with `name` and go on with this piece.
    fn texts(&self, name: &str) -> Box<dyn Iterator<Item = String> + '_> {
        let name = name.to_owned();
        match self {
            Self::Text(text) => Box::new(std::iter::once(name + text)),
            Self::Ranges(ranges) => Box::new(ranges.iter().flat_map(move |range| {
                let (name, width) = (name.clone(), range.width);
                (range.first..=range.last).map(move |number| format!("{name}{number:0width$}"))
            })),
        }
    }
}

fn pieces(item: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    for part in item.split_inclusive(']') {
        let (text, ranges) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((text, ranges)) => (text, Some(ranges)),
            None => (part, None),
        };
        if ranges.is_some_and(|inside| inside.contains(':')) {
            pieces.push(Piece::Text(part));
            continue;
        }
        pieces.push(Piece::Text(text));
        if let Some(ranges) = ranges {
            let ranges: Result<Vec<Range>, String> = ranges.split(',').map(range).collect();
            pieces.push(Piece::Ranges(ranges?));
        }
    }
    Ok(pieces)
}

fn range(text: &str) -> Result<Range, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = text.parse::<u32>().ok().filter(|_| is_number);
        parsed.ok_or_else(|| format!("{text:?} is no number"))
    };
    let range = Range {
        first: number(first)?,
        last: number(last)?,
        width: if first.starts_with('0') {
            first.len()
        } else {
            1
        },
    };
    if range.first > range.last {
        return Err(format!("the range {text:?} goes backwards"));
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_list() {
        for (text, names) in [
            ("b,a,b", &["b", "a", "b"][..]),
            ("c[3,1-2]", &["c3", "c1", "c2"]),
            ("r[1-2]n[0-1]", &["r1n0", "r1n1", "r2n0", "r2n1"]),
            ("127.0.0.1:[1-2]", &["127.0.0.1:1", "127.0.0.1:2"]),
            ("[fd00::1]:7,[::2]", &["[fd00::1]:7", "[::2]"]),
            ("[fd00::1]:[7-8]", &["[fd00::1]:7", "[fd00::1]:8"]),
        ] {
            assert_eq!(expand(text, 9).unwrap(), names, "{text}");
        }
    }

    #[test]
    fn a_host_list_that_is_too_long_is_refused_before_it_is_expanded() {
        assert!(expand("c[1-9]", 9).is_ok());
        for text in ["c[1-9],d", "c[0-4294967295]", "a[1-99]b[1-99]c[1-99]"] {
            let error = expand(text, 9).unwrap_err();
            assert!(error.contains("more than 9"), "{error}");
        }
        let (long, wide) = ("a".repeat(BYTES_MAX), "0".repeat(70_000));
        assert_eq!(expand(&long, 9).unwrap(), [long.as_str()]);
        for text in [
            format!("{long}a"),
            format!("{long}[1-2]"),
            format!("c[{wide}-1]"),
        ] {
            let error = expand(&text, 9).unwrap_err();
            assert!(error.contains("longer than 512 bytes"), "{error}");
        }
    }
}
