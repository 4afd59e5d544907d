//! Metrics that carry their own descriptions.
//!
//! A metric is declared once, in a registry: name, kind, labels, unit, meaning. Its handles are
//! made from the declaration alone, so no metric lacks a meaning. A registry describes its metrics
//! to a recorder. It starts its counters and histograms at 0, if their series are known beforehand.
//! Documents are written from the registry.
//!
//! ```
//! binomesh_overlay::registry! {
//!     /// What a kitchen counts.
//!     pub KITCHEN:
//!     Counter DISHES = "kitchen_dishes_total" { "course": [("starter", ""), ("dessert", "")] }
//!         "dishes that were served";
//!     Gauge OVEN = "kitchen_oven_celsius" [unit: metrics::Unit::Count] "how hot the oven is";
//! }
//!
//! KITCHEN.begin();
//! DISHES.with(["dessert"]).increment(1);
//! OVEN.get().set(180.0);
//! ```

use std::marker::PhantomData;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Level, Metadata, Recorder, SharedString};
use metrics::{Unit, with_recorder};

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// The description of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// The metric's name in Prometheus.
    pub name: &'static str,
    /// The metric's labels, besides those that all metrics of a node have.
    pub labels: &'static [Label],
    /// The unit, unless the metric is a mere number.
    pub unit: Option<Unit>,
    /// The meaning of the metric.
    pub help: &'static str,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// The name of the label.
    pub name: &'static str,
    /// The values of the label, each with its meaning, which is empty where the value explains
    /// itself. The list is empty if the values are not known beforehand, like the names of peers.
    pub values: &'static [(&'static str, &'static str)],
}

/// A kind of metric: [`Counter`], [`Gauge`], [`Histogram`].
pub trait Kind: Sized {
    /// The name of the kind in Prometheus.
    const NAME: &'static str;

    /// A handle of one series.
    fn register(recorder: &dyn Recorder, key: &Key) -> Self;

    /// Describe the metric to a recorder.
    fn describe(recorder: &dyn Recorder, name: KeyName, unit: Option<Unit>, help: SharedString);
}

impl Kind for Counter {
    const NAME: &'static str = "counter";

    fn register(recorder: &dyn Recorder, key: &Key) -> Self {
        recorder.register_counter(key, &METADATA)
    }

    fn describe(recorder: &dyn Recorder, name: KeyName, unit: Option<Unit>, help: SharedString) {
        recorder.describe_counter(name, unit, help);
    }
}

impl Kind for Gauge {
    const NAME: &'static str = "gauge";

    fn register(recorder: &dyn Recorder, key: &Key) -> Self {
        recorder.register_gauge(key, &METADATA)
    }

    fn describe(recorder: &dyn Recorder, name: KeyName, unit: Option<Unit>, help: SharedString) {
        recorder.describe_gauge(name, unit, help);
    }
}

impl Kind for Histogram {
    const NAME: &'static str = "histogram";

    fn register(recorder: &dyn Recorder, key: &Key) -> Self {
        recorder.register_histogram(key, &METADATA)
    }

    fn describe(recorder: &dyn Recorder, name: KeyName, unit: Option<Unit>, help: SharedString) {
        recorder.describe_histogram(name, unit, help);
    }
}

/// A declared metric with `N` labels. A handle belongs to the recorder that is current when it is
/// made.
#[derive(Debug)]
pub struct Metric<K, const N: usize> {
    description: Description,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind, const N: usize> Metric<K, N> {
    /// A metric with this description. Only [`registry!`](crate::registry) calls this.
    #[doc(hidden)]
    pub const fn declared(description: Description) -> Self {
        assert!(
            description.labels.len() == N,
            "one type for each count of labels"
        );
        Self {
            description,
            kind: PhantomData,
        }
    }

    /// The handle of the series with these values of the labels, in the order of their declaration.
    pub fn with(&self, values: [impl Into<SharedString>; N]) -> K {
        let names = self.description.labels.iter().map(|label| label.name);
        let values = values.into_iter().map(Into::into);
        let labels = names.zip(values);
        let labels = labels.map(|(name, value)| metrics::Label::new(name, value));
        let key = Key::from_parts(self.description.name, labels.collect::<Vec<_>>());
        with_recorder(|recorder| K::register(recorder, &key))
    }
}

impl<K: Kind> Metric<K, 0> {
    /// The handle of the only series.
    pub fn get(&self) -> K {
        let key = Key::from_static_name(self.description.name);
        with_recorder(|recorder| K::register(recorder, &key))
    }
}

/// A metric of any kind.
pub trait Declared: Sync {
    /// The description of the metric.
    fn description(&self) -> &Description;

    /// The name of the metric's kind in Prometheus.
    fn kind(&self) -> &'static str;

    /// Describe the metric to the current recorder. A counter or histogram whose series are known
    /// beforehand starts at 0, so that Prometheus sees its first event as an increase.
    fn begin(&self);
}

impl<K: Kind, const N: usize> Declared for Metric<K, N> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn kind(&self) -> &'static str {
        K::NAME
    }

    fn begin(&self) {
        let Description {
            name, unit, help, ..
        } = self.description;
        with_recorder(|recorder| K::describe(recorder, name.into(), unit, help.into()));
        if K::NAME == Gauge::NAME {
            return;
        }
        let mut series: Vec<Vec<&'static str>> = vec![Vec::new()];
        for label in self.description.labels {
            let longer = |one: &Vec<&'static str>| {
                let one = one.clone();
                let values = label.values.iter().map(|(value, _)| *value);
                values.map(move |value| [&one[..], &[value]].concat())
            };
            series = series.iter().flat_map(longer).collect();
        }
        for values in series {
            if let Ok(values) = <[&'static str; N]>::try_from(values) {
                drop(self.with(values));
            }
        }
    }
}

/// All metrics of a part of the system.
#[derive(Clone, Copy)]
pub struct Registry {
    /// The metrics, in the order in which they are shown.
    pub metrics: &'static [&'static dyn Declared],
}

impl Registry {
    /// Begin each metric: see [`Declared::begin`].
    pub fn begin(&self) {
        for metric in self.metrics {
            metric.begin();
        }
    }
}

/// Declare the metrics of a [`Registry`](crate::quic::registry::Registry), with a static for each.
/// No other code makes handles: clippy refuses the macros of the crate `metrics`.
#[macro_export]
macro_rules! registry {
    (
        $(#[$about:meta])* $visible:vis $registry:ident:
        $($kind:ident $name:ident = $text:literal
            $({ $($label:literal: $values:expr),+ })? $([unit: $unit:expr])? $help:literal;)+
    ) => {
        $(
            #[doc = $help]
            $visible static $name: $crate::quic::registry::Metric<
                $crate::quic::registry::kinds::$kind,
                { let labels: &[&str] = &[$($($label),+)?]; labels.len() },
            > = $crate::quic::registry::Metric::declared($crate::quic::registry::Description {
                name: $text,
                labels: &[$($($crate::quic::registry::Label {
                    name: $label,
                    values: &$values,
                }),+)?],
                unit: {
                    let units: &[$crate::quic::registry::kinds::Unit] = &[$($unit)?];
                    match units { [unit] => Some(*unit), _ => None }
                },
                help: $help,
            });
        )+
        $(#[$about])*
        $visible static $registry: $crate::quic::registry::Registry =
            $crate::quic::registry::Registry { metrics: &[$(&$name),+] };
    };
}

/// The types that [`registry!`](crate::registry) names.
#[doc(hidden)]
pub mod kinds {
    pub use metrics::{Counter, Gauge, Histogram, Unit};
}
