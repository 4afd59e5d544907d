use super::*;

fn environment(text: &str) -> Environment {
    let pairs = text.split_whitespace();
    pairs
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Flags as a user types them. In a host file `;` stands for the end of a line, and `_` for a
/// space.
fn request(text: &str) -> Request {
    let mut request = Request::default();
    let mut words = text.split_whitespace();
    while let (Some(flag), Some(value)) = (words.next(), words.next()) {
        let owned = value.to_owned();
        match flag {
            "--launch" => request.launcher = value.parse().expect("a launcher"),
            "--ordinal" => request.ordinal = Some(value.parse().expect("a number")),
            "--size" => request.size = Some(value.parse().expect("a number")),
            "--peers" => request.peers = Some(owned),
            "--hostfile" => request.hostfile = Some(owned.replace(';', "\n").replace('_', " ")),
            "--port" => request.port = value.parse().expect("a port"),
            _ => panic!("{flag}"),
        }
    }
    request
}

fn slurm(nodes: &str, tasks: &str, node: &str, local: &str) -> String {
    format!(
        "SLURM_JOB_ID=7 SLURM_STEP_NODELIST={nodes} SLURM_STEP_TASKS_PER_NODE={tasks} \
         SLURM_NODEID={node} SLURM_LOCALID={local}"
    )
}

fn mpi(rank: &str, size: &str, local: &str) -> String {
    format!(
        "SLURM_JOB_ID=7 OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_SIZE={size} \
         OMPI_COMM_WORLD_LOCAL_RANK={local}"
    )
}

#[test]
fn each_launcher_tells_the_place_of_a_process() {
    for (variables, flags, ordinal, size, me) in [
        ("", "--ordinal 2 --peers c[001-003]", 2, 3, "c003@c003:7400"),
        (
            "",
            "--ordinal 1 --peers 127.0.0.1:[8000-8007]",
            1,
            8,
            "127.0.0.1.1@127.0.0.1:8001",
        ),
        (
            "",
            "--ordinal 3 --peers node-{}@node-{}.mesh.svc:7500 --size 5",
            3,
            5,
            "node-3@node-3.mesh.svc:7500",
        ),
        (
            "",
            "--ordinal 1 --peers [fd00::1]:9,[fd00::2] --port 8000",
            1,
            2,
            "fd00--2@[fd00::2]:8000",
        ),
        (
            "",
            "--ordinal 3 --hostfile a_slots=2;#x;b_slots=2_max-slots=4 --port 8000",
            3,
            4,
            "b.1@b:8001",
        ),
        (
            &slurm("c[1-3,7]", "2(x3),1", "1", "1"),
            "",
            3,
            7,
            "c2.1@c2:7401",
        ),
        (
            &slurm("login", "1", "0", "0"),
            "--launch slurm",
            0,
            1,
            "login@login:7400",
        ),
        (&mpi("3", "4", "1"), "--peers a,b", 3, 4, "b.1@b:7401"),
        (
            &mpi("2", "3", "0"),
            "--hostfile a_slots=2;b_slots=4",
            2,
            3,
            "b@b:7400",
        ),
        (&mpi("1", "2", "0"), "--peers n{}:9", 1, 2, "n1@n1:9"),
        (
            "KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=mesh-2.mesh.default",
            "--peers mesh-{}@mesh-{}.mesh:7400 --size 3",
            2,
            3,
            "mesh-2@mesh-2.mesh:7400",
        ),
        (
            "HOSTNAME=c2.example",
            "--launch hosts:c[1-9]",
            1,
            9,
            "c2@c2:7400",
        ),
        (
            "HOSTNAME=c2",
            "--launch hosts:c1.x,c2.x:9",
            1,
            2,
            "c2.x@c2.x:9",
        ),
    ] {
        let placed = place(&environment(variables), &request(flags));
        let placed = placed.unwrap_or_else(|error| panic!("{variables} {flags}: {error}"));
        assert_eq!(placed.ordinal, ordinal, "{variables} {flags}");
        assert_eq!(placed.size(), size, "{variables} {flags}");
        assert_eq!(placed.me().to_string(), me);
    }
}

#[test]
fn all_ranks_of_an_mpirun_and_all_tasks_of_a_step_have_one_job_id() {
    for (variables, id) in [
        ("SLURM_JOB_ID=7 SLURM_STEP_ID=3", Some("7-3")),
        ("SLURM_JOB_ID=7", None),
        ("PMIX_NAMESPACE=4272", None),
        ("OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=4272", Some("4272")),
        (
            "OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=4272 SLURM_JOB_ID=7",
            Some("4272"),
        ),
        (
            "OMPI_COMM_WORLD_RANK=4 PMIX_NAMESPACE=4272 SLURM_JOB_ID=7 SLURM_STEP_ID=0",
            Some("4272"),
        ),
    ] {
        assert_eq!(
            job_id(&environment(variables)).as_deref(),
            id,
            "{variables}"
        );
    }
}

/// Every process of a step finds itself, and all find the same list.
#[test]
fn the_processes_of_a_step_have_one_list_and_each_place_once() {
    let tasks = [2, 3, 3, 1];
    let mut ordinals = Vec::new();
    let mut lists = Vec::new();
    for (node, count) in tasks.into_iter().enumerate() {
        for local in 0..count {
            let variables = slurm(
                "n[08-10],x",
                "2,3(x2),1",
                &node.to_string(),
                &local.to_string(),
            );
            let placed = place(&environment(&variables), &Request::default()).expect("placed");
            assert_eq!(placed.local, local);
            ordinals.push(placed.ordinal);
            lists.push(placed.peers);
        }
    }
    assert!(ordinals.into_iter().eq(0..9));
    lists.dedup();
    assert_eq!(lists.len(), 1);
}

/// Columns: variables, flags, the origin of the error, a part of its problem, a part of its remedy.
/// `slurm NODES TASKS NODE LOCAL`, `mpi RANK SIZE LOCAL` and `pod NAME` stand for the variables
/// that these launchers set; `-NAME` takes the variable NAME away.
const WRONG: &str = r#"
| | flag --launch | but none of OMPI | start the node with
| --ordinal 1 | flag --ordinal | is 1, but no list | --peers
| --ordinal 3 --peers c[1-3] | flag --ordinal | is 3, but the list in flag --peers has 3 | from 0 to 2
| --ordinal 0 --peers c[1-3 | flag --peers | brackets do not match | expected hosts
| --ordinal 0 --peers c1] | flag --peers | brackets do not match | expected hosts
| --ordinal 0 --peers c[3-1] | flag --peers | goes backwards | expected hosts
| --ordinal 0 --peers c[1-x] | flag --peers | "x" is no number | expected hosts
| --ordinal 0 --peers c[] | flag --peers | is no number | expected hosts
| --ordinal 0 --peers c[0-65536] | flag --peers | more than 65536 | expected hosts
| --ordinal 0 --peers , | flag --peers | names no node | expected hosts
| --ordinal 0 --peers a:b | flag --peers | port is no number | expected hosts
| --ordinal 0 --peers a:0 | flag --peers | port 0 | expected hosts
| --ordinal 0 --peers a:65536 | flag --peers | port is no number | expected hosts
| --ordinal 0 --peers 10.0.0.999 | flag --peers | is no address, and a name | expected hosts
| --ordinal 0 --peers [fd00::g]:7 | flag --peers | no IPv6 address | expected hosts
| --ordinal 0 --peers a/b@c:7 | flag --peers | is not a name | expected hosts
| --ordinal 0 --peers a*b:7 | flag --peers | no DNS name | expected hosts
| --ordinal 0 --peers a:7,b:7,a:7 | flag --peers | ordinals 0 and 2 the same location | list each node once
| --ordinal 0 --peers n@a:7,n@b:7 | flag --peers | ordinals 0 and 1 the same name "n" | list each node once
| --ordinal 0 --peers a,a --port 65535 | flag --port | port 65536 | smaller first port
| --ordinal 0 --peers n-{}:7 | flag --peers | stands for the ordinals | --size
| --ordinal 5 --peers n-{}:7 --size 5 | flag --ordinal | is 5 | from 0 to 4
| --ordinal 0 --peers n-{}:7 --size 0 | flag --size | is 0 | expected 1 to
| --ordinal 0 --peers n-{}:7,x --size 2 | flag --peers | has only one entry | write one entry
| --ordinal 0 --peers c[1-3] --size 4 | flag --size | is 4, but the list has 3 | leave out --size
| --ordinal 0 --peers a --hostfile a | flag --peers | together with --hostfile | only one of the two
| --ordinal 0 --hostfile ;#a | flag --hostfile | names no host | one host per line
| --ordinal 0 --hostfile a;b_slots=x | flag --hostfile | line 2: "slots=x" | slots=4
| --ordinal 0 --hostfile a_slots=0 | flag --hostfile | line 1: "slots=0" | slots=4
| --ordinal 0 --hostfile a_slots=65536;b | flag --hostfile | the file lists more than 65536 | slots=4
| --launch hosts:a,b | the name of this host | is unknown | --ordinal
HOSTNAME=c | --launch hosts:a,b | the name of this host | is "c", which is not in the list | --ordinal
HOSTNAME=a.x | --launch hosts:a.y,a.z | the name of this host | is "a.x", which is not in the list | --ordinal
HOSTNAME=10 | --launch hosts:10.0.0.1,b | the name of this host | is "10", which is not in the list | --ordinal
HOSTNAME=a | --launch hosts:a.x,a.y | the name of this host | the list of --launch has 2 times | --ordinal
HOSTNAME=a | --launch hosts:a --peers b | flag --peers | is given | leave out --peers
HOSTNAME=a | --launch hosts:a[ | flag --launch | brackets do not match | expected hosts
slurm c[1-2] 1(x2) 0 0 -SLURM_STEP_NODELIST | | environment variable SLURM_STEP_NODELIST | is not set | with srun
slurm c[1-2] 1(x2) 0 0 -SLURM_STEP_TASKS_PER_NODE | | environment variable SLURM_STEP_TASKS_PER_NODE | is not set | with srun
slurm c[1-2] 1(x2) 0 0 -SLURM_NODEID | | environment variable SLURM_NODEID | is not set | with srun
slurm c[1-2] 1(x2) 0 0 -SLURM_LOCALID | | environment variable SLURM_LOCALID | is not set | with srun
slurm c[1-2] 1(x2) x 0 | | environment variable SLURM_NODEID | "x"; expected a whole number | with srun
slurm c[1-2] 1(x2) 2 0 | | environment variable SLURM_NODEID | is 2, but | with srun
slurm c[1-2] 2,1 1 1 | | environment variable SLURM_LOCALID | runs 1 tasks | with srun
slurm c[1-2] 1(x3) 0 0 | | environment variable SLURM_STEP_TASKS_PER_NODE | counts for 3 hosts | 2(x3),1
slurm c[1-2] 1(2) 0 0 | | environment variable SLURM_STEP_TASKS_PER_NODE | "1(2)" is no count | 2(x3),1
slurm c[1- 1 0 0 | | environment variable SLURM_STEP_NODELIST | brackets do not match | c[001-128]
slurm a,a,a 1,99999,1 0 0 | | environment variable SLURM_STEP_TASKS_PER_NODE | more than 65536 | 2(x3),1
slurm c1 1 0 0 | --peers c1 | flag --peers | Slurm already sets this | leave out --peers
slurm c1 1 0 0 | --launch slurm --ordinal 0 | flag --ordinal | Slurm already sets this | leave out --ordinal
mpi 0 1 0 -OMPI_COMM_WORLD_SIZE | | environment variable OMPI_COMM_WORLD_SIZE | is not set | mpirun
mpi x 1 0 | | environment variable OMPI_COMM_WORLD_RANK | "x"; expected a whole number | mpirun
mpi 3 3 0 | | environment variable OMPI_COMM_WORLD_SIZE | is 3, but OMPI_COMM_WORLD_RANK is 3 | at most
mpi 0 2 0 | | flag --peers | is not given | --hostfile
mpi 0 3 0 | --peers a,b | flag --peers | slots for 2 processes | as many slots
mpi 0 9 0 | --hostfile a_slots=4;b_slots=4 | flag --hostfile | slots for 8 processes | as many slots
mpi 1 4 0 | --peers a,b | environment variable OMPI_COMM_WORLD_LOCAL_RANK | rank 1 is process 1 of host a | --map-by slot
pod mesh | --peers n{}:7 --size 3 | the name of this host | a name that ends with a hyphen | StatefulSet
pod mesh-2 | | flag --peers | is not given | --size
pod mesh-2 | --peers n{}:7 --size 2 | the name of this host | is 2, but the list | from 0 to 1
pod mesh-2 | --peers n{}:7 | flag --peers | stands for the ordinals | --size
"#;

/// The variables for which the first column stands.
fn variables(text: &str) -> Environment {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut all = match words.as_slice() {
        ["slurm", nodes, tasks, node, local, ..] => environment(&slurm(nodes, tasks, node, local)),
        ["mpi", rank, size, local, ..] => environment(&mpi(rank, size, local)),
        ["pod", name] => environment(&format!("KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME={name}")),
        _ => environment(text),
    };
    for without in words.iter().filter_map(|word| word.strip_prefix('-')) {
        all.remove(without);
    }
    all
}

#[test]
fn wrong_inputs_are_said_with_a_remedy() {
    let lines: Vec<&str> = WRONG.trim().lines().collect();
    assert!(lines.len() >= 40);
    let mut other = Vec::new();
    for line in lines {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [given, flags, origin, problem, remedy] = columns.as_slice() else {
            panic!("{line}");
        };
        let error = place(&variables(given), &request(flags)).expect_err(line);
        let shown = error.to_string();
        let is_right = error.origin == *origin
            && error.problem.contains(problem)
            && error.remedy.contains(remedy);
        if !is_right {
            other.push(format!("{line}: {shown}"));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
}
