//! How well a straight line describes points.

/// The share of the variance of y that the best line a + b x explains: 1 if the line explains all
/// of the variance.
pub(super) fn straightness(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points
            .iter()
            .map(|point| of(point.0 - x, point.1 - y))
            .sum()
    };
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_straight_and_a_square_less_so() {
        let points =
            |of: fn(f64) -> f64| -> Vec<_> { (1..9).map(f64::from).map(|x| (x, of(x))).collect() };
        assert!((straightness(&points(|x| 3.0 - 2.0 * x)) - 1.0).abs() < 1e-12);
        assert_eq!(straightness(&points(|_| 4.0)), 1.0);
        assert!(straightness(&points(|x| x * x)) < 0.97);
    }
}
