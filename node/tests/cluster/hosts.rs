//! Hosts with a network of their own, as network namespaces.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A network namespace. It ends when this value is dropped.
pub(crate) struct Host {
    pid: u32,
    _holder: Child,
}

impl Host {
    async fn make() -> Self {
        // The shell reports that the namespace is there, and holds it until the input closes.
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo here; read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("unshare (util-linux) runs");
        let mut line = String::new();
        let said = holder.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).await.unwrap();
        assert_eq!(line, "here\n", "a network namespace needs root");
        let host = Self {
            pid: holder.id().expect("running"),
            _holder: holder,
        };
        host.run("ip link set lo up").await;
        host
    }

    pub(crate) fn namespace(&self) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join("ns/net")
    }

    /// Runs a command of iproute2 on the host and returns its output.
    pub(crate) async fn run(&self, line: &str) -> String {
        let output = self.output(line).await;
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command on the host. The command may fail.
    pub(crate) async fn output(&self, line: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("nsenter")
            .arg(format!("--net={}", self.namespace().display()))
            .arg("--")
            .args(line.split_whitespace())
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .output()
            .await;
        output.expect("nsenter (util-linux) runs")
    }
}

/// Two hosts on one line, 10.99.0.1 and 10.99.0.2, fd99::1 and fd99::2.
pub(crate) async fn two_hosts() -> [Host; 2] {
    let hosts = [Host::make().await, Host::make().await];
    let peer = hosts[1].pid;
    let [here, there] = &hosts;
    here.run(&format!(
        "ip link add line type veth peer name line netns {peer}"
    ))
    .await;
    for (host, number) in [(here, 1), (there, 2)] {
        host.run(&format!("ip addr add 10.99.0.{number}/24 dev line"))
            .await;
        host.run(&format!("ip addr add fd99::{number}/64 dev line nodad"))
            .await;
        host.run("ip link set line up").await;
    }
    hosts
}
