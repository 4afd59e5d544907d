//! The subcommands and flags of `binomesh`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use binomesh_routing::packet::Confirmation;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use super::collective::{AgreeFlags, BarrierFlags, CollectivesFlags, GatherFlags, ReduceFlags};
use super::job::ExecFlags;
use super::launch::LaunchFlags;
use super::targets::TargetsFlags;
use super::wait::WaitFlags;
use crate::certificate::Role;
use crate::client::Endpoint;
use crate::graph::Graph;
use crate::settings::{Bootstrap, Profile, Router, Seed, Signatures, Strategy};
use crate::shape::Shape;

/// The longest time that a flag takes: a year, so that its sum with the clock does not overflow.
pub(super) const SECONDS_MAX: u64 = 365 * 24 * 3600;

/// The names of the strategies, each with its help.
fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let about = |strategy: Strategy| strategy.about().trim_end_matches('.');
    let value = |strategy: Strategy| PossibleValue::new(strategy.name()).help(about(strategy));
    PossibleValuesParser::new(Strategy::ALL.map(value)).try_map(|name| name.parse::<Strategy>())
}

/// A resilient communication layer for clusters.
#[derive(Debug, Parser)]
#[command(name = "binomesh", version, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a local cluster of real processes, which runs until Ctrl-C.
    #[command(visible_alias = "dev")]
    Up(UpFlags),
    /// Make a certificate authority, and issue, list and revoke certificates.
    #[command(subcommand)]
    Ca(CaCommand),
    /// Run one node.
    Run(Box<RunFlags>),
    /// Print each node, and whether it is ready, with the reason if it is not.
    Status(LookFlags),
    /// Print the tables of the nodes: ranks, parents and fingers.
    Topology(LookFlags),
    /// Print the addresses of the metrics of all nodes, for Prometheus.
    Targets(TargetsFlags),
    /// Send a message to some nodes and print its receipt.
    Send(SendFlags),
    /// Send a message to all nodes and print its receipt.
    Broadcast(BroadcastFlags),
    /// Send a file, or standard input, to all nodes, each of which checks its hash.
    Push(PushFlags),
    /// Print the messages that a node delivers.
    Subscribe(SubscribeFlags),
    /// Wait until the overlay has at least a given number of members.
    Wait(WaitFlags),
    /// Wait until all members have called the same barrier, and name the missing ones.
    Barrier(BarrierFlags),
    /// Agree on one value with other members.
    Agree(AgreeFlags),
    /// Gather a value from each member.
    Gather(GatherFlags),
    /// Combine the numbers of all members, such as to a sum.
    Reduce(ReduceFlags),
    /// Print the waiting collectives, and the members that each of them waits for.
    Collectives(CollectivesFlags),
    /// Become a command that ends with its parent process; for `run -- COMMAND`.
    #[command(hide = true)]
    Exec(ExecFlags),
    /// Let a node leave its cluster and stop.
    Leave(LeaveFlags),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  binomesh up --nodes 16 --demo
  binomesh up --nodes 64 --shape binary --json
  binomesh up --nodes 32 --bootstrap clique
  binomesh up --bootstrap graph --graph mesh:4x4")]
pub(super) struct UpFlags {
    /// The number of nodes.
    #[arg(long, default_value_t = 16, conflicts_with = "graph", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) nodes: u32,
    /// The nodes that each node knows at its start: with tree its parent, with clique all nodes,
    /// with graph its neighbours in --graph.
    #[arg(long, default_value_t = Bootstrap::Tree)]
    pub(super) bootstrap: Bootstrap,
    /// The graph of the nodes that know each other: ring:N, mesh:AxB, random:N,D (N nodes of mean
    /// degree D, drawn by --seed), star:N, cliques:N (two cliques joined by an edge),
    /// caterpillar:N, or file:PATH. Each line of the file is an edge: `0 1`, or `0 > 1` if only
    /// node 0 knows node 1.
    #[arg(long)]
    pub(super) graph: Option<Graph>,
    /// The shape of the deployment tree: binomial, which is the default, binary, flat or random.
    #[arg(long)]
    pub(super) shape: Option<Shape>,
    /// The number of children of a node, in the shape `binary` and in the sibling tree (at least
    /// 2).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) fanout: u32,
    /// The seed of the shape `random` and of the graph `random`.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The router of messages to single nodes; auto is binomial.
    #[arg(long, value_enum, default_value_t = Router::Auto)]
    pub(super) router: Router,
    /// Whether the nodes sign their messages, and whether they accept unsigned messages.
    #[arg(long, value_enum, default_value_t = Signatures::Off)]
    pub(super) signatures: Signatures,
    /// How closely the nodes watch each other: default, fast or quiet.
    #[arg(long, default_value_t = Profile::Fast)]
    pub(super) profile: Profile,
    /// How long the rank of a dead member stays vacant. The default is 30, and 0 with --demo, which
    /// shows the compacted graph after each death.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=604_800))]
    pub(super) grace_seconds: Option<u64>,
    /// The time limit of the forming of the cluster, or of the whole demo.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub(super) timeout_seconds: u64,
    /// Keep the nodes running when the parent process of this command ends. Without this flag the
    /// end of the parent process stops the nodes, also under nohup and setsid, so that no script
    /// leaves nodes behind.
    #[arg(long)]
    pub(super) outlive_parent: bool,
    /// Show that the cluster forms, delivers messages and heals, and then stop.
    #[arg(long)]
    pub(super) demo: bool,
    /// Print events as JSON, one per line.
    #[arg(long)]
    pub(super) json: bool,
    /// The log filter of the nodes, whose logs are in the folder of the cluster.
    #[arg(long, default_value = "info")]
    pub(super) log: String,
    /// Run the nodes with this planted bug.
    #[cfg(feature = "planted")]
    #[arg(long)]
    pub(super) planted: Option<binomesh_overlay::Bug>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CaCommand {
    /// Make an authority: DIR/ca.pem and DIR/ca.key.
    #[command(after_help = "Example:
  binomesh ca init --dir ca --trust-domain cluster-7.example")]
    Init {
        /// The folder of the authority.
        #[arg(long)]
        dir: PathBuf,
        /// The trust domain of all nodes that the authority certifies.
        #[arg(long, default_value = "binomesh.local")]
        trust_domain: String,
        /// How many days the authority is valid.
        #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36500))]
        valid_days: u32,
        /// Replace an existing authority. The certificates of the replaced authority lose their
        /// worth.
        #[arg(long)]
        force: bool,
    },
    /// Issue a certificate to a node: OUT/node.pem, OUT/node.key, OUT/ca.pem, OUT/crl.pem and,
    /// unless it exists, OUT/node.toml. Or issue one to a monitor, which reads metrics:
    /// OUT/monitor.pem, OUT/monitor.key and OUT/ca.pem.
    #[command(after_help = "Examples:
  binomesh ca issue --dir ca --name node-7 --out node-7
  binomesh ca issue --dir ca --monitor prometheus --out monitor")]
    Issue {
        /// The folder of the authority.
        #[arg(long)]
        dir: PathBuf,
        #[command(flatten)]
        holder: Holder,
        /// How many days the certificate is valid.
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=36500))]
        valid_days: u32,
        /// The folder in which the files are written.
        #[arg(long)]
        out: PathBuf,
        /// Replace existing files.
        #[arg(long)]
        force: bool,
    },
    /// Revoke all certificates of a node or a monitor, and write the list of all revoked
    /// certificates.
    #[command(
        after_help = "The nodes read the list, the file crl.pem beside their ca.pem, at their start and at SIGHUP.

Examples:
  binomesh ca revoke --dir ca --name node-7 --out crl.pem
  binomesh ca revoke --dir ca --monitor prometheus --out crl.pem"
    )]
    Revoke {
        /// The folder of the authority.
        #[arg(long)]
        dir: PathBuf,
        #[command(flatten)]
        holder: Holder,
        /// After how many days the next list is due. A list that is overdue still revokes.
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=36500))]
        valid_days: u32,
        /// The file of the list, which is replaced if it exists [default: DIR/crl.pem].
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Make the secret of a short-lived job, from which the processes of the job derive their
    /// certificates.
    #[command(
        after_help = "Every process that has the secret is a member of the job. Keep the secret in a file of mode 0600.

Examples:
  binomesh ca job-secret --out job.secret
  srun -n 64 binomesh run --launch slurm --job-secret job.secret -- ./work"
    )]
    JobSecret {
        /// The file of the secret, written with mode 0600 [default: standard output].
        #[arg(long)]
        out: Option<PathBuf>,
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
    /// List the certificates that the authority has issued.
    #[command(after_help = "Example:
  binomesh ca list --dir ca --json")]
    List {
        /// The folder of the authority.
        #[arg(long)]
        dir: PathBuf,
        /// Print JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
}

/// The holder of a certificate.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Holder {
    /// The name of the node.
    #[arg(long)]
    name: Option<String>,
    /// The name of the monitor, which is a program that reads metrics, such as Prometheus, and no
    /// node.
    #[arg(long, value_name = "NAME")]
    monitor: Option<String>,
}

impl Holder {
    /// The role, and the name of the node or monitor.
    pub(super) fn named(&self) -> (Role, &str) {
        match (&self.monitor, &self.name) {
            (Some(monitor), _) => (Role::Monitor, monitor),
            (None, name) => (Role::Node, name.as_deref().unwrap_or_default()),
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Flags override BINOMESH_* variables, which override the settings file.
The first line on standard output names the address at which the node listens. With a
COMMAND, standard output belongs to the command. The command starts as soon as the node is
a member, with BINOMESH_ADMIN, BINOMESH_ORDINAL and BINOMESH_SIZE in its environment. The
node passes signals on to the command and leaves when the command ends. The exit status of
the command is the exit status of `run`.

Examples:
  binomesh run --config /etc/binomesh/node.toml --log info,binomesh=debug
  srun -n 64 binomesh run --launch slurm --job-secret job.secret -- ./work
  mpirun -n 8 --hostfile hosts binomesh run --hostfile hosts --credentials ca/nodes -- ./work
  binomesh run --ordinal 3 --peers 'c[001-128]' --shape binary --credentials /etc/binomesh
  binomesh run --launch kubernetes --peers 'mesh-{}.mesh:7400' --size 3 --credentials /certs"
)]
pub(super) struct RunFlags {
    /// The settings file; deploy/node.toml shows all settings.
    #[arg(long, env = "BINOMESH_CONFIG")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) settings: SettingFlags,
    #[command(flatten)]
    pub(super) place: LaunchFlags,
    /// A command that runs as soon as the node is a member.
    #[arg(last = true)]
    pub(super) command: Vec<OsString>,
}

/// Settings that flags override. Each field has the name and the type of its setting, so one more
/// field here is a flag for one more setting.
#[derive(Debug, Clone, Args, Serialize)]
pub(super) struct SettingFlags {
    /// The name of the node.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// The address at which the node listens.
    #[arg(long)]
    pub(super) bind: Option<SocketAddr>,
    /// The parent of the node, as name@host:port.
    #[arg(long)]
    pub(super) parent: Option<Seed>,
    /// The folder in which the node keeps its state between two starts.
    #[arg(long)]
    pub(super) state_dir: Option<PathBuf>,
    /// The Unix socket of the admin API.
    #[arg(long)]
    pub(super) admin_socket: Option<PathBuf>,
    /// The address of the metrics, on loopback; for other addresses see `metrics_tls` in
    /// deploy/node.toml.
    #[arg(long)]
    pub(super) metrics: Option<SocketAddr>,
    /// How closely the node watches its neighbours: default, fast or quiet.
    #[arg(long)]
    pub(super) profile: Option<Profile>,
    /// The most children that the node accepts.
    #[arg(long)]
    pub(super) max_children: Option<u32>,
    /// The router of messages to single nodes; auto is binomial.
    #[arg(long, value_enum)]
    pub(super) router: Option<Router>,
    /// The number of children of a full node in the sibling tree.
    #[arg(long)]
    pub(super) fanout: Option<u32>,
    /// Whether the node signs its messages, and whether it accepts unsigned messages.
    #[arg(long, value_enum)]
    pub(super) signatures: Option<Signatures>,
    /// The number of threads that do the work of the node; with more threads a busy node uses more
    /// cores.
    #[arg(long)]
    pub(super) threads: Option<usize>,
    /// The log filter, such as `info,binomesh=debug`.
    #[arg(long)]
    pub(super) log: Option<String>,
    /// Write log lines as JSON.
    #[arg(long)]
    pub(super) log_json: bool,
    /// Leave the cluster when standard input closes.
    #[arg(long)]
    pub(super) watch_stdin: bool,
}

/// The node or the cluster that a command asks.
#[derive(Debug, Clone, Args)]
pub(super) struct Target {
    /// The folder of a local cluster, as `up` prints it. Without --cluster and --admin:
    /// BINOMESH_ADMIN, else BINOMESH_CLUSTER, else the socket /run/binomesh/admin.sock.
    #[arg(long, value_name = "DIR", conflicts_with = "admin")]
    pub(super) cluster: Option<PathBuf>,
    /// The name of one node of the cluster.
    #[arg(long, value_name = "NAME", conflicts_with = "admin")]
    pub(super) node: Option<String>,
    /// The admin API of a node: the path of its socket, or http://ADDRESS:PORT.
    #[arg(long, value_name = "SOCKET|URL")]
    pub(super) admin: Option<Endpoint>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  binomesh status --admin /run/binomesh/admin.sock
  binomesh topology --cluster /tmp/binomesh-x --json")]
pub(super) struct LookFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// The message to send.
#[derive(Debug, Clone, Args)]
pub(super) struct Payload {
    /// The payload [default: standard input, unless --file is given].
    #[arg(conflicts_with = "file")]
    pub(super) payload: Option<String>,
    /// A file that holds the payload.
    #[arg(long)]
    pub(super) file: Option<PathBuf>,
    /// The topic of the message.
    #[arg(long, default_value = "default")]
    pub(super) topic: String,
    /// The time after which the receipt is due at the latest.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub(super) timeout_seconds: u64,
    /// The time for which the message is kept for members that are away and may come back. The
    /// receipt is due after this time, or as soon as all members have the message.
    #[arg(
        long,
        conflicts_with = "timeout_seconds",
        value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX)
    )]
    pub(super) until_seconds: Option<u64>,
    /// The confirmation that each receiver gives: relayed (its node has the message), delivered (a
    /// subscriber has the message) or acknowledged (the application has answered).
    #[arg(long, default_value = "relayed")]
    pub(super) confirm: Confirmation,
    /// Number the message among the messages of the node on the same topic and to the same
    /// receivers, for subscribers that read messages in order.
    #[arg(long)]
    pub(super) ordered: bool,
    /// Print the receipt as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  binomesh send --cluster /tmp/binomesh-x --to node-3,node-5 'hello'")]
pub(super) struct SendFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// The names of the receivers, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    pub(super) to: Vec<String>,
    #[command(flatten)]
    pub(super) message: Payload,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  binomesh broadcast --cluster /tmp/binomesh-x 'hello'
  tar c conf | binomesh broadcast --admin /run/binomesh/admin.sock --topic conf --json
  binomesh broadcast --cluster /tmp/binomesh-x --strategy sibling-tree 'hello'
  binomesh broadcast --cluster /tmp/binomesh-x --until-seconds 3600 'for the absent, too'
  binomesh broadcast --cluster /tmp/binomesh-x --topic ask --collect 'which kernel?'")]
pub(super) struct BroadcastFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// The way in which the message spreads from node to node; auto is binomial.
    #[arg(long, default_value_t = Strategy::Auto, value_parser = strategies())]
    pub(super) strategy: Strategy,
    /// Ask the applications for answers and print each different answer once; the same as
    /// `--confirm acknowledged`.
    #[arg(long, conflicts_with = "confirm")]
    pub(super) collect: bool,
    /// End with status 0 even if the cluster has no other member.
    #[arg(long)]
    pub(super) allow_none: bool,
    #[command(flatten)]
    pub(super) message: Payload,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Each node stores the file in the folder that its setting `push_dir` names. The file gets its
name as soon as it is complete and its BLAKE3 hash is right. The report names each node that
failed, with the reason. A node that fails does not hold up the others.

Examples:
  binomesh push --cluster /tmp/binomesh-x image.squashfs
  binomesh push --admin /run/binomesh/admin.sock --name motd --replace /etc/motd --json
  tar c conf | binomesh push --admin /run/binomesh/admin.sock --name conf.tar -"
)]
pub(super) struct PushFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// The file; `-` is standard input, which is sent while it is read.
    pub(super) file: PathBuf,
    /// The name of the file at the nodes [default: its own name]. Standard input needs a name.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Replace a file that has this name at a node.
    #[arg(long)]
    pub(super) replace: bool,
    /// The order in which the file goes to the nodes. With auto the order follows from the length
    /// and the number of nodes: `circulant`, except for short files, for two nodes and above 1,024
    /// nodes.
    #[arg(long, default_value_t = Strategy::Auto, value_parser = strategies())]
    pub(super) strategy: Strategy,
    /// The time that a node may take for each step, until the push continues without this node. The
    /// other nodes wait meanwhile, and give up the file after two minutes of silence.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=90))]
    pub(super) patience_seconds: u64,
    /// End with status 0 even if the cluster has no other member.
    #[arg(long)]
    pub(super) allow_none: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  binomesh subscribe --admin /run/binomesh/admin.sock --topic 'jobs/#' --json
  binomesh subscribe --admin /run/binomesh/admin.sock --topic jobs --ordered
  binomesh subscribe --admin /run/binomesh/admin.sock --topic ask --exec 'uname -r'

The command of --exec reads the payload from its standard input, and has BINOMESH_TOPIC,
BINOMESH_ORIGIN and BINOMESH_ID in its environment. Other members of the cluster cause the
command to run, so the command must not trust its input.")]
pub(super) struct SubscribeFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// The topics: one topic, `prefix/#` for the topic `prefix` and all topics below it, or `#` for
    /// all topics.
    #[arg(long, default_value = "#")]
    pub(super) topic: String,
    /// Print messages that were sent with --ordered in the order of each sender, and name the
    /// missing ones. A message that comes after it was named as missing is marked late.
    #[arg(long)]
    pub(super) ordered: bool,
    /// How many milliseconds a message waits for the messages before it [default: 2000].
    #[arg(long, value_name = "MS", requires = "ordered")]
    pub(super) hold_ms: Option<u64>,
    /// The text with which messages are answered whose origin waits for an answer.
    #[arg(long, value_name = "TEXT")]
    pub(super) reply: Option<String>,
    /// The shell command whose output, at most 4096 bytes, answers messages whose origin waits for
    /// an answer.
    #[arg(long, value_name = "COMMAND", conflicts_with = "reply")]
    pub(super) exec: Option<String>,
    /// The time that the command of --exec may take. After this time the command and its child
    /// processes are ended, and the answer says that the command did not end in time. Later
    /// messages wait meanwhile.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    pub(super) exec_seconds: u64,
    /// Stop after this number of messages.
    #[arg(long)]
    pub(super) count: Option<u64>,
    /// Give up after this time.
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    pub(super) timeout_seconds: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  binomesh leave --cluster /tmp/binomesh-x --node node-3")]
pub(super) struct LeaveFlags {
    #[command(flatten)]
    pub(super) target: Target,
    /// How long the messages of the node may wait for their receipts before the node leaves.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    pub(super) drain_seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_that_override_settings_have_their_names() {
        let parsed = Arguments::try_parse_from(["binomesh", "run"]);
        let Ok(Command::Run(flags)) = parsed.map(|arguments| arguments.command) else {
            panic!("`run` needs no flag");
        };
        let flags = serde_json::to_value(&flags.settings).expect("texts");
        let flags = flags.as_object().expect("an object");
        assert!(flags.len() > 10);
        for key in flags.keys() {
            assert!(crate::config::is_setting(key), "{key}");
        }
    }

    #[test]
    fn the_commands_are_consistent_and_have_examples() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        command.build();
        let mut all: Vec<&clap::Command> = command.get_subcommands().collect();
        while let Some(command) = all.pop() {
            if command.get_name() == "help" {
                continue;
            }
            if command.has_subcommands() {
                all.extend(command.get_subcommands());
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|help| help.contains("Example")),
                "{}",
                command.get_name()
            );
        }
    }

    #[test]
    fn the_contract_parses_and_nonsense_is_usage() {
        for line in [
            "up",
            "dev --nodes 3",
            "up --nodes 16 --bootstrap tree --shape flat --fanout 2 --router auto --profile fast \
             --grace-seconds 0 --timeout-seconds 120 --demo --json",
            "ca init --dir d",
            "ca issue --dir d --name n --valid-days 3 --out o",
            "ca issue --dir d --monitor n --out o",
            "ca revoke --dir d --name n --out crl.pem",
            "ca revoke --dir d --monitor n",
            "ca list --dir d --json",
            "run --config node.toml --watch-stdin",
            "run --launch auto",
            "run --launch slurm --bootstrap tree --shape binary --fanout 3 --port 8000 -- a -b --c",
            "run --launch hosts:c[1-3] --ordinal 1 --bind-own",
            "run --ordinal 1 --peers c[1-3] --credentials d",
            "run --launch mpi --hostfile f -- work --json",
            "wait --cluster d --members 3 --timeout-seconds 5 --json",
            "wait --admin /run/s --members 3",
            "status --cluster d --node node-1 --json",
            "topology --admin /run/s --json",
            "targets --admin http://127.0.0.1:9464 --out f",
            "targets --cluster d --json",
            "send --cluster d --to a,b hello",
            "broadcast --cluster d --file f",
            "broadcast --cluster d --strategy sibling-tree hello",
            "broadcast --cluster d --until-seconds 60 --collect hello",
            "send --cluster d --to a --until-seconds 60 --confirm delivered hello",
            "subscribe --cluster d --node a --exec date",
            "subscribe --cluster d --node a --exec date --exec-seconds 60",
            "leave --cluster d --node a --json",
            "up --outlive-parent",
            "subscribe --cluster d --node a --ordered --hold-ms 100",
            "broadcast --cluster d --ordered hello",
            "send --cluster d --to a --ordered hello",
            "push --cluster d --name n --replace f --json",
            "push --cluster d --name n -",
            "up --nodes 31 --fanout 2 --router aware --signatures require",
            "run --config node.toml --router basic-least --fanout 4 --signatures sign",
            "subscribe --admin http://127.0.0.1:1 --topic x",
            "leave --cluster d --node node-1",
            "barrier x --generation 3 --members c[001-128] --timeout-seconds 5 --admin s --json",
            "agree x --admin s value",
            "gather x --admin s --root a value",
            "reduce x --admin s --op max:f64 -1.5 2",
            "collectives --cluster d --all --json",
        ] {
            let words = std::iter::once("binomesh").chain(line.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
        for line in [
            "",
            "up --nodes 0",
            "up --nodes many",
            "up --timeout-seconds 18446744073709551615",
            "send --to a --timeout-seconds 18446744073709551615 x",
            "broadcast --timeout-seconds 31536001 x",
            "subscribe --timeout-seconds 18446744073709551615",
            "leave --drain-seconds 18446744073709551615",
            "up --shape round",
            "targets --cluster d --json --out f",
            "ca issue --dir d --out o",
            "ca issue --dir d --name n --monitor n --out o",
            "up --router fastest",
            "broadcast --strategy best x",
            "broadcast --until-seconds 1 --timeout-seconds 1 x",
            "broadcast --confirm maybe x",
            "broadcast --collect --confirm relayed x",
            "subscribe --reply a --exec b",
            "subscribe --cluster d --hold-ms 100",
            "push --cluster d",
            "send --cluster d hello",
            "status --cluster d --admin s",
            "status --node n --admin s",
            "broadcast --cluster d word --file f",
            "run --launch pbs",
            "run --launch hosts:",
            "run --peers a --size 0",
            "run --peers a --port 0",
            "run --peers a --bind [::]:1 --bind-own",
            "run --peers a work",
            "barrier --admin s",
            "barrier x --on-loss survivors:many",
            "reduce x --op mean 1",
            "wait --cluster d",
            "wait --cluster d --members 0",
            "wait --members 3 --cluster d --admin s",
        ] {
            let words = std::iter::once("binomesh").chain(line.split_whitespace());
            let error = Arguments::try_parse_from(words).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    /// The commands in a document's `sh` blocks, split into words. Each `$host` becomes `a`.
    fn commands(text: &str) -> Vec<Vec<String>> {
        let mut inside = false;
        let mut found = Vec::new();
        for line in text.lines() {
            if line.starts_with("```") {
                inside = line == "```sh";
                continue;
            }
            let shown = line
                .replace("./binomesh ", "binomesh ")
                .replace("$host", "a");
            for (at, _) in shown.match_indices("binomesh ").filter(|_| inside) {
                let starts = shown[..at].chars().next_back();
                if !starts.is_none_or(|before| " '(".contains(before)) {
                    continue;
                }
                let rest = &shown[at..];
                // In a quoted command for another host, the quote ends the command.
                let end = rest.find(['\'', ';', '|', '&', '<', '>']);
                let rest = &rest[..end.unwrap_or(rest.len())];
                let words = rest
                    .split('"')
                    .enumerate()
                    .flat_map(|(part, text)| match part % 2 {
                        0 => text.split_whitespace().map(str::to_owned).collect(),
                        _ => vec![text.to_owned()],
                    });
                found.push(words.collect());
            }
        }
        found
    }

    /// The number of commands in a document, all of which must parse.
    fn parsed(path: &std::path::Path) -> usize {
        let text = std::fs::read_to_string(path).expect("readable");
        let commands = commands(&text);
        for words in &commands {
            let parsed = Arguments::try_parse_from(words);
            let path = path.display();
            assert!(parsed.is_ok(), "{path}: {words:?}: {}", parsed.unwrap_err());
        }
        commands.len()
    }

    #[test]
    fn the_commands_of_the_guides_parse() {
        let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs");
        for (name, least) in [("operations.md", 6), ("deploy.md", 6), ("monitoring.md", 2)] {
            assert!(parsed(&docs.join(name)) >= least, "{name}");
        }
        let runbooks = std::fs::read_dir(docs.join("runbooks")).expect("readable");
        let runbooks: Vec<PathBuf> = runbooks
            .map(|entry| entry.expect("readable").path())
            .collect();
        assert!(runbooks.len() > 16);
        for path in runbooks {
            assert!(parsed(&path) > 0, "{}", path.display());
        }
    }
}
