//! Reads the settings: `node.toml`, overridden by the place that a launcher gives, by `BINOMESH_*`
//! variables, and by flags. No file is needed if these give all settings that have no default.
//!
//! Relative paths in the file are relative to the file; other relative paths are relative to the
//! working directory.

mod fields;

use std::fmt;
use std::path::Path;

use figment::error::Kind;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;

use crate::settings::{Bootstrap, NodeConfig};

/// `BINOMESH_*` variables that are no settings of a node: options of commands, and variables that
/// `run` and `subscribe --exec` set for the commands that they start.
const OTHER: [&str; 14] = [
    "config",
    "cluster",
    "admin",
    "launch",
    "shape",
    "peers",
    "hostfile",
    "port",
    "credentials",
    "ordinal",
    "size",
    "topic",
    "origin",
    "id",
];

/// The beginnings of the names of flags and of variables in errors.
const FLAG: &str = "flag --";
const VARIABLE: &str = "environment variable BINOMESH_";

/// Whether Kubernetes sets this variable for a Service whose name begins with `binomesh`:
/// `BINOMESH_SERVICE_HOST`, `BINOMESH_PORT_7400_UDP`, `BINOMESH_METRICS_PORT=tcp://…` and so on.
fn is_of_a_service(key: &str, value: &str) -> bool {
    let is_port = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let mut parts = key.split("port_").skip(1);
    let is_link = key.ends_with("port") && value.contains("://");
    is_link || key.contains("service_host") || key.contains("service_port") || parts.any(is_port)
}

/// Whether there is a setting of this name.
#[cfg(all(test, feature = "cli"))]
pub(crate) fn is_setting(key: &str) -> bool {
    fields::kind(key).is_some()
}

/// Why the settings cannot be used. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The place of the error, such as the file, a variable or a flag.
    pub origin: String,
    /// The name of the setting, or of an unknown one in the file, if the error is about one.
    pub key: Option<String>,
    /// The problem, with the value if that may be shown.
    pub problem: String,
    /// What the operator can do.
    pub remedy: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

impl std::error::Error for ConfigError {}

/// Settings from one place, as texts.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    origin: &'static str,
    values: Vec<(String, String)>,
}

impl Layer {
    /// The layer of the `BINOMESH_*` variables among `variables`.
    pub fn environment(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut values = Vec::new();
        for (name, value) in variables {
            let Some(key) = name.strip_prefix("BINOMESH_").map(str::to_lowercase) else {
                continue;
            };
            // An empty variable counts as unset, as in other programs.
            let is_none = value.is_empty();
            if is_none || OTHER.contains(&key.as_str()) || is_of_a_service(&key, &value) {
                continue;
            }
            if fields::kind(&key).is_none() {
                return Err(ConfigError {
                    origin: format!("environment variable {name}"),
                    key: None,
                    problem: format!("there is no setting `{key}`"),
                    remedy: "unset the variable, or see the list of settings in deploy/node.toml"
                        .to_owned(),
                });
            }
            values.push((key, value));
        }
        Ok(Self {
            origin: VARIABLE,
            values,
        })
    }

    /// The layer of the flags: a structure whose fields have the names of the settings that they
    /// override. A flag that is not given, or a switch that is off, overrides nothing.
    pub fn flags(given: &impl Serialize) -> Result<Self, ConfigError> {
        use serde_json::Value;
        let given = serde_json::to_value(given).map_err(|error| ConfigError {
            origin: "the flags".to_owned(),
            key: None,
            problem: error.to_string(),
            remedy: "write the value in UTF-8".to_owned(),
        })?;
        let text = |value: &Value| match value {
            Value::Null | Value::Bool(false) => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let given = given.as_object().into_iter().flatten();
        let values = given.filter_map(|(key, value)| Some((key.clone(), text(value)?)));
        Ok(Self {
            origin: FLAG,
            values: values.collect(),
        })
    }

    /// The same layer with further flags, each by the name of the setting that it overrides.
    #[must_use]
    pub fn and(mut self, values: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Self {
        self.values.extend(Self::of(self.origin, values).values);
        self
    }

    /// The layer of defaults, which all other layers override.
    pub fn defaults(values: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Self {
        Self::of("the default", values)
    }

    /// The layer of settings that follow from a place in a launcher's list.
    pub fn placed(values: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Self {
        Self::of("the place in the list of nodes", values)
    }

    fn of(
        origin: &'static str,
        values: impl IntoIterator<Item = (&'static str, Option<String>)>,
    ) -> Self {
        let given = |(key, value): (&str, Option<String>)| Some((key.to_owned(), value?));
        Self {
            origin,
            values: values.into_iter().filter_map(given).collect(),
        }
    }
}

/// The layers of settings besides the file.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// Defaults, which the file and all other layers override.
    pub defaults: Layer,
    /// Settings that follow from the node's place in a launcher's list; they override the file.
    pub placed: Layer,
    /// The environment, which overrides the file and the place in the list.
    pub environment: Layer,
    /// The flags, which override all other layers.
    pub flags: Layer,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let value = |key: &String, text: &String| match fields::kind(key) {
            Some(fields::Kind::Parsed) => text.parse().unwrap_or_else(|never| match never {}),
            Some(fields::Kind::Text) | None => Value::from(text.clone()),
        };
        let dict = self.values.iter().map(|(k, v)| (k.clone(), value(k, v)));
        Ok(Profile::Default.collect(dict.collect()))
    }
}

/// Read the settings: `file`, if there is one, among the other layers.
pub fn load(file: Option<&Path>, layers: Layers) -> Result<NodeConfig, ConfigError> {
    let mut figment = Figment::from(layers.defaults);
    if let Some(file) = file {
        figment = figment.merge(read(file)?);
    }
    let figment = figment
        .merge(layers.placed)
        .merge(layers.environment)
        .merge(layers.flags);
    let figment = match figment.contains("job_secret") {
        true => figment.join(Layer::defaults(
            CREDENTIALS.map(|key| (key, Some(String::new()))),
        )),
        false => figment,
    };
    let file = file.unwrap_or(Path::new(NO_FILE));
    let mut config: NodeConfig = figment.extract().map_err(|error| explained(error, file))?;
    rebase(&figment, file, &mut config);
    config.check().map_err(|invalid| {
        let origin = figment.find_metadata(invalid.key).map_or_else(
            || file.display().to_string(),
            |found| origin_of(found, invalid.key, file),
        );
        ConfigError {
            origin,
            key: Some(invalid.key.to_owned()),
            problem: format!("is {}", invalid.value),
            remedy: format!("expected {}", invalid.expected),
        }
    })?;
    Ok(config)
}

/// The setting `bootstrap`, from the file or a variable; `None` if neither gives it. A setting or a
/// file that cannot be read yields `None` here, and an error in [`load`].
pub fn bootstrap(file: Option<&Path>, environment: &Layer) -> Option<Bootstrap> {
    let mut figment = Figment::new();
    if let Some(file) = file {
        figment = figment.merge(Toml::file_exact(file));
    }
    let figment = figment.merge(environment.clone());
    figment.extract_inner("bootstrap").ok()
}

/// The settings that `--credentials` stands for.
const CREDENTIALS: [&str; 3] = ["certificate", "key", "ca"];
/// Stands for the file's name in errors, where there is no file.
const NO_FILE: &str = "flags and variables";

/// Read a file as a layer of settings.
fn read(file: &Path) -> Result<impl Provider, ConfigError> {
    let whole = |problem: String, remedy: &str| ConfigError {
        origin: file.display().to_string(),
        key: None,
        problem,
        remedy: remedy.to_owned(),
    };
    std::fs::read_to_string(file).map_err(|error| {
        whole(
            format!("cannot be read: {error}"),
            "give an existing file with `--config`",
        )
    })?;
    Ok(Toml::file_exact(file))
}

/// Take relative paths that the file gives as relative to the folder of the file.
fn rebase(figment: &Figment, file: &Path, config: &mut NodeConfig) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let from_file = |key: &str| {
        let source = figment.find_metadata(key).and_then(|it| it.source.as_ref());
        source.is_some_and(|source| source.file_path().is_some())
    };
    for (key, path) in config.paths() {
        if from_file(key) {
            *path = folder.join(&*path);
        }
    }
}

fn origin_of(metadata: &Metadata, key: &str, file: &Path) -> String {
    match metadata.name.as_ref() {
        FLAG => format!("{FLAG}{}", key.replace('_', "-")),
        VARIABLE => format!("{VARIABLE}{}", key.to_uppercase()),
        name if name.starts_with("the ") => name.to_owned(),
        _ => file.display().to_string(),
    }
}

fn explained(error: figment::Error, file: &Path) -> ConfigError {
    let key = error.path.join(".");
    let origin = match &error.metadata {
        Some(metadata) => origin_of(metadata, &key, file),
        None => file.display().to_string(),
    };
    let (key, remedy) = match &error.kind {
        Kind::UnknownField(name, known) => (
            name.clone(),
            match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "remove the setting; the known settings are {}",
                    known.join(", ")
                ),
            },
        ),
        Kind::MissingField(name)
            if file == Path::new(NO_FILE) && CREDENTIALS.contains(&name.as_ref()) =>
        {
            (
                name.to_string(),
                "give --job-secret, or --credentials with a folder that `binomesh ca issue` has \
                 written"
                    .to_owned(),
            )
        }
        Kind::MissingField(name) if file == Path::new(NO_FILE) => (
            name.to_string(),
            format!(
                "set BINOMESH_{}, give a flag, a settings file (--config) or a launcher \
                 (--launch)",
                name.to_uppercase()
            ),
        ),
        Kind::MissingField(name) => (name.to_string(), format!("add `{name} = …`")),
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            (key, format!("expected {expected}"))
        }
        Kind::UnknownVariant(_, known) => (key, format!("expected one of {}", known.join(", "))),
        _ => (
            key,
            "correct the setting; deploy/node.toml shows all settings".to_owned(),
        ),
    };
    // A parse error quotes its line, which may hold a secret.
    let problem = error.kind.to_string();
    let problem = match problem.contains("job_secret") && problem.contains('\n') {
        true => "the line of `job_secret` cannot be parsed".to_owned(),
        false => problem,
    };
    ConfigError {
        origin,
        key: (!key.is_empty()).then_some(key),
        problem,
        remedy,
    }
}

/// The known word that differs from `word` in at most two letters.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // A file may contain a word of any length, and the distance takes time in proportion to the
    // product of both lengths.
    let word: String = word.chars().take(64).collect();
    let scored = known
        .iter()
        .map(|other| (strsim::levenshtein(&word, other), *other));
    scored
        .filter(|(d, _)| *d <= 2)
        .min()
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    const GOOD: &str = r#"
        name = "node-1"
        bind = "127.0.0.1:7400"
        parent = "node-0@127.0.0.1:7401"
        certificate = "node.pem"
        key = "node.key"
        ca = "/etc/ca.pem"
        state_dir = "state"
    "#;

    fn read(text: &str, env: &[(&str, &str)], flags: Layer) -> Result<NodeConfig, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node.toml");
        std::fs::write(&file, text).unwrap();
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let layers = Layers {
            environment: Layer::environment(env)?,
            flags,
            ..Layers::default()
        };
        let loaded = load(Some(&file), layers)?;
        assert_eq!(loaded.certificate.parent(), Some(dir.path()));
        Ok(loaded)
    }

    #[test]
    fn flags_beat_variables_beat_the_file() {
        let env = [
            ("BINOMESH_NAME", "7"),
            ("BINOMESH_MAX_CHILDREN", "3"),
            ("BINOMESH_SEEDS", r#"["a@127.0.0.1:1"]"#),
            ("BINOMESH_KEY", "here.key"),
            ("PATH", "x"),
        ];
        let flags = Layer::flags(&json!({"max_children": 4, "log": null})).unwrap();
        let config = read(GOOD, &env, flags).unwrap();
        assert_eq!(config.name, "7");
        assert_eq!(config.max_children, 4);
        assert_eq!(config.seeds.len(), 1);
        assert_eq!(config.key, Path::new("here.key"));
        assert_eq!(config.ca, Path::new("/etc/ca.pem"));
    }

    #[test]
    fn errors_name_place_key_value_and_remedy() {
        for (extra, key, words) in [
            (
                "max_childen = 3",
                "max_childen",
                "did you mean `max_children`",
            ),
            ("colour = 3", "colour", "known settings are name, bind"),
            (
                "max_children = \"many\"",
                "max_children",
                "found string \"many\", expected u32",
            ),
            ("max_children = -1", "max_children", "-1"),
            ("seeds = [\"x\"]", "seeds", "name@address:port"),
            ("profile = \"loud\"", "profile", "loud"),
            ("signatures = \"on\"", "signatures", "require"),
            (
                "grace_seconds = 604801",
                "grace_seconds",
                "expected 0 to 604800",
            ),
        ] {
            let text = format!("{GOOD}\n{extra}");
            let error = read(&text, &[], Layer::default()).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains("node.toml"), "{shown}");
            assert!(shown.contains(key) && shown.contains(words), "{shown}");
        }
        let missing = GOOD.replace("name = \"node-1\"", "");
        let error = read(&missing, &[], Layer::default()).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("name"));
    }

    #[test]
    fn errors_in_variables_and_flags_name_them() {
        let error = read(GOOD, &[("BINOMESH_BIND", "nowhere")], Layer::default()).unwrap_err();
        assert_eq!(error.origin, "environment variable BINOMESH_BIND");
        let error = read(GOOD, &[("BINOMESH_COLOUR", "1")], Layer::default()).unwrap_err();
        assert!(error.to_string().contains("BINOMESH_COLOUR"), "{error}");
        let flags = Layer::flags(&json!({"max_children": 0})).unwrap();
        let error = read(GOOD, &[], flags).unwrap_err();
        assert_eq!(error.origin, "flag --max-children");
    }

    #[test]
    fn a_secret_in_the_file_is_not_shown() {
        let secret = "000102030405060708090a0b0c0d0e0f";
        for value in [
            format!("\"{secret}\""),
            secret.to_owned(),
            format!("\"{secret}"),
        ] {
            let text = GOOD.to_owned() + &format!("\njob_secret = {value}\n");
            let error = read(&text, &[], Layer::default()).unwrap_err().to_string();
            assert!(!error.contains(secret), "{error}");
        }
    }

    /// Settings that take any text and are no paths.
    const NO_PATHS: [&str; 2] = ["log", "job_id"];

    #[test]
    fn relative_paths_in_the_file_are_relative_to_it() {
        let texts = fields::names().iter();
        let texts = texts.filter(|key| fields::kind(key) == Some(fields::Kind::Text));
        let mut moved = Vec::new();
        for key in texts.filter(|key| !NO_PATHS.contains(key)) {
            let mut lines: Vec<&str> = GOOD.lines().collect();
            lines.retain(|line| !line.trim().starts_with(&format!("{key} =")));
            let text = format!("{}\n{key} = \"./here\"", lines.join("\n"));
            let text = match *key {
                "metrics_token_file" => text + "\nmetrics = \"127.0.0.1:1\"",
                "job_secret" => {
                    format!("name = \"a\"\nstate_dir = \"s\"\njob_id = \"7\"\n{key} = \"./here\"")
                }
                _ => text,
            };
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("node.toml");
            std::fs::write(&file, text).unwrap();
            let Ok(mut config) = load(Some(&file), Layers::default()) else {
                continue;
            };
            let mut paths = config.paths();
            let path = paths.find(|(name, _)| name == key).map(|(_, path)| path);
            assert_eq!(path, Some(&mut dir.path().join("./here")), "{key}");
            moved.push(*key);
        }
        assert_eq!(moved.len(), 9, "{moved:?}");
    }

    #[test]
    fn the_file_of_the_deployment_shows_every_setting_and_no_other() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/node.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let shown = |line: &str| {
            let line = line.trim_start_matches("# ");
            let (key, _) = line.split_once(" = ")?;
            let is_key = key
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter == '_');
            is_key.then(|| key.to_owned())
        };
        let shown: BTreeSet<String> = text.lines().filter_map(shown).collect();
        // Bugs are planted only in tests. The other two are for programs that start nodes.
        let hidden = ["planted", "slot", "watch_stdin"];
        let all = fields::names().iter().filter(|key| !hidden.contains(key));
        let all: BTreeSet<String> = all.map(|key| (*key).to_owned()).collect();
        assert_eq!(shown, all);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Some(Path::new("/nowhere/node.toml")), Layers::default()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/node.toml"), "{error}");
    }

    #[test]
    fn without_a_file_the_place_in_the_list_fills_the_missing_flags() {
        let defaults = || {
            Layer::defaults([
                ("state_dir", Some("s".to_owned())),
                ("certificate", Some("c".to_owned())),
                ("key", Some("k".to_owned())),
                ("ca", Some("a".to_owned())),
            ])
        };
        let placed = || {
            Layer::placed([
                ("name", Some("7".to_owned())),
                ("parent", Some("6@c6:7400".to_owned())),
                ("seeds", Some(r#"["5@c5:7400"]"#.to_owned())),
                ("slot", Some("7".to_owned())),
            ])
        };
        let of = |flags: serde_json::Value| Layers {
            defaults: defaults(),
            placed: placed(),
            flags: Layer::flags(&flags).unwrap(),
            ..Layers::default()
        };
        let config = load(None, of(json!({"key": "other"}))).unwrap();
        assert_eq!((config.name.as_str(), config.slot), ("7", Some(7)));
        assert_eq!(config.key, Path::new("other"));
        let config = load(None, of(json!({"slot": 9}))).unwrap();
        assert_eq!((config.name.as_str(), config.slot), ("7", Some(9)));
        assert_eq!(config.seeds[0].address.to_string(), "c5:7400");
        let error = load(None, of(json!({"fanout": 1}))).unwrap_err();
        assert_eq!(error.origin, "flag --fanout");
        let error = load(None, Layers::default()).unwrap_err().to_string();
        assert!(error.contains("--launch"), "{error}");
    }
}
