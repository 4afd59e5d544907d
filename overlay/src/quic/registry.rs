//! Metrics that explain themselves.
//!
//! A metric is declared once, in a registry: name, kind, labels, unit, meaning. Its handles
//! are made from the declaration alone, so none is without a meaning. A registry describes
//! its metrics to a recorder and has its counters and histograms begin at 0, and documents
//! are written from it.
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

/// What a metric is.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Its labels, besides those that all metrics of a node have.
    pub labels: &'static [Label],
    /// In what it is measured, if it is no mere number.
    pub unit: Option<Unit>,
    /// What it tells.
    pub help: &'static str,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values, each with its meaning, which is empty where the value says it all. None
    /// if they are not known beforehand, as the names of peers are not.
    pub values: &'static [(&'static str, &'static str)],
}

/// A kind of metric: [`Counter`], [`Gauge`], [`Histogram`].
pub trait Kind: Sized {
    /// Its name in Prometheus.
    const NAME: &'static str;

    /// A handle of one series.
    fn register(recorder: &dyn Recorder, key: &Key) -> Self;

    /// Tell a recorder what the metric is.
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

/// A declared metric with `N` labels. Its handles belong to the recorder that is current
/// when they are made.
#[derive(Debug)]
pub struct Metric<K, const N: usize> {
    description: Description,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind, const N: usize> Metric<K, N> {
    /// Only [`registry!`](crate::registry) calls this.
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

    /// The series with these values of the labels, in the order of their declaration.
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
    /// The only series.
    pub fn get(&self) -> K {
        let key = Key::from_static_name(self.description.name);
        with_recorder(|recorder| K::register(recorder, &key))
    }
}

/// A metric of any kind.
pub trait Declared: Sync {
    /// What it is.
    fn description(&self) -> &Description;

    /// The name of its kind in Prometheus.
    fn kind(&self) -> &'static str;

    /// Describe it to the current recorder. A counter or histogram whose series are known
    /// beforehand begins at 0, so that Prometheus sees its first event as an increase.
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
    /// In the order in which they are shown.
    pub metrics: &'static [&'static dyn Declared],
}

impl Registry {
    /// Begin each: see [`Declared::begin`].
    pub fn begin(&self) {
        for metric in self.metrics {
            metric.begin();
        }
    }
}

/// Declare the metrics of a [`Registry`](crate::quic::registry::Registry), with a static for
/// each. Nothing else makes handles: clippy refuses the macros of the crate `metrics`.
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

/// What [`registry!`](crate::registry) names.
#[doc(hidden)]
pub mod kinds {
    pub use metrics::{Counter, Gauge, Histogram, Unit};
}
