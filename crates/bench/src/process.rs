//! Processes: those that we start and that never outlive us, and what the system says that any of them costs.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::time::sleep;

use crate::figures::{real, share};

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What nearly all systems count CPU time in, should this one not say.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process of ours. It is killed when this is dropped, and when we are gone, however we went.
#[derive(Debug)]
pub struct Process {
    child: Child,
    guard: Option<Guard>,
}

impl Process {
    /// Starts it in a group of its own: a terminal's Ctrl-C is for us, and we end it.
    ///
    /// # Errors
    /// If it, or whoever watches over it, cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let mut process = Self { child, guard: None };
        process.guard = Some(Guard::over(&process.child)?);
        Ok(process)
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = self.child.try_wait()?;
        if ended.is_some() {
            // From now on its pid may be another's.
            self.guard = None;
        }
        Ok(ended)
    }

    /// Ends it as a power cut would: SIGKILL, which no process can answer.
    ///
    /// # Errors
    /// If the system does not let us.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        // The guard goes after the kill, or nobody would be left to do it if we were killed in between; and before
        // the wait, after which the pid may be another's.
        let killed = self.child.kill();
        self.guard = None;
        killed?;
        self.child.wait()
    }

    /// Asks it to stop.
    pub(crate) fn ask_to_stop(&self) -> Result<()> {
        // Of `kill`, only the shell's own is on every machine.
        let line = format!("kill -TERM {}", self.id());
        let status = Command::new("sh").args(["-c", &line]).status()?;
        ensure!(status.success(), "{line}: {status}");
        Ok(())
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(&mut self, patience: Duration) -> Result<()> {
        if self.ended()?.is_none() {
            self.ask_to_stop()?;
        }
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended()? {
                ensure!(status.success(), "it stopped with {status}");
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("it did not stop within {patience:?}");
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is all that is wanted.
        let _ = self.kill();
    }
}

/// A shell that kills a process when we are gone: nothing of ours runs after a SIGKILL.
#[derive(Debug)]
struct Guard {
    shell: Child,
    _held: Option<ChildStdin>,
}

impl Guard {
    fn over(process: &Child) -> io::Result<Self> {
        let pid = process.id().to_string();
        let mut shell = Command::new("/bin/sh")
            // Nothing is ever written: reading ends when our end of the pipe is closed.
            .args(["-c", "read -r _; kill -9 \"$0\"", &pid])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let _held = shell.stdin.take();
        Ok(Self { shell, _held })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before the pipe is closed, so that it cannot act any more.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
struct Stat {
    parent: u32,
    own_ticks: u64,
    /// Of children that have ended.
    children_ticks: u64,
}

impl Stat {
    /// Reads `/proc/<pid>/stat`; the name in it may hold anything, so fields are counted after its end.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.rsplit_once(')')?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |n: usize| fields.get(n)?.parse::<u64>().ok();
        Some(Self {
            parent: field(1)?.try_into().ok()?,
            own_ticks: field(11)? + field(12)?,
            children_ticks: field(13)? + field(14)?,
        })
    }

    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// CPU seconds of a process.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    Stat::of(pid).map_or(0.0, |stat| real(stat.own_ticks) / ticks_per_second())
}

/// CPU seconds of a process and of all that it has started, ended or not.
pub(crate) fn family_cpu_seconds(pid: u32) -> f64 {
    let Some(head) = Stat::of(pid) else {
        return 0.0;
    };
    let mut ticks = head.own_ticks + head.children_ticks;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let child = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let stat = child.and_then(Stat::of).filter(|stat| stat.parent == pid);
        ticks += stat.map_or(0, |stat| stat.own_ticks);
    }
    real(ticks) / ticks_per_second()
}

/// Memory of a process that is in RAM, in MiB.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

/// CPU time of the calling thread. The scheduler's own count, where there is one, is far finer than ticks.
pub(crate) fn thread_cpu() -> Duration {
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/{name}")).ok();
    let first = |text: String| text.split_whitespace().next()?.parse().ok();
    if let Some(nanos) = read("schedstat").and_then(first).filter(|nanos| *nanos > 0) {
        return Duration::from_nanos(nanos);
    }
    let stat = read("stat").and_then(|text| Stat::parse(&text));
    let seconds = stat.map_or(0.0, |stat| real(stat.own_ticks) / ticks_per_second());
    Duration::from_secs_f64(seconds)
}

/// What others take of this machine's processors.
#[derive(Debug, Clone)]
pub(crate) struct Takings(Option<Ticks>);

impl Takings {
    pub(crate) fn begin() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self(Ticks::parse(&stat))
    }

    /// How much of a hundred parts since the last look; nothing where nobody can say.
    pub(crate) fn percent(&mut self) -> f64 {
        let before = std::mem::replace(self, Self::begin());
        let (Some(before), Some(now)) = (before.0, self.0) else {
            return 0.0;
        };
        now.stolen_since(before) * 100.0
    }
}

/// The time of all processors together, and what of it was stolen.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// From the line of all processors: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks = line.split_whitespace().take(8).map(str::parse);
        let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
        Some(Self {
            all: ticks.iter().sum(),
            stolen: *ticks.get(7)?,
        })
    }

    fn stolen_since(self, before: Self) -> f64 {
        let stolen = self.stolen.saturating_sub(before.stolen);
        share(real(stolen), real(self.all.saturating_sub(before.all)))
    }
}

/// How far a difference of CPU seconds may be off: both are counted in whole ticks.
pub(crate) fn cpu_seconds_unsure() -> f64 {
    2.0 / ticks_per_second()
}

fn ticks_per_second() -> f64 {
    static TICKS: OnceLock<f64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let asked = Command::new("getconf").arg("CLK_TCK").output();
        let said = asked.context("getconf").ok();
        let said = said.and_then(|said| String::from_utf8(said.stdout).ok());
        let ticks = said.and_then(|said| said.trim().parse().ok());
        ticks
            .filter(|ticks| *ticks > 0.0)
            .unwrap_or(TICKS_PER_SECOND)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_move_the_fields() {
        let text = "7 (a) b) S 3 1 1 0 -1 4194304 100 0 0 0 11 22 33 44 20 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.parent, stat.own_ticks, stat.children_ticks),
            (3, 33, 77)
        );
        assert!(Stat::parse("").is_none());
    }

    #[test]
    fn work_of_this_thread_and_process_is_counted() {
        let (thread, process) = (thread_cpu(), cpu_seconds(std::process::id()));
        let began = Instant::now();
        let mut sum = 0_u64;
        while thread_cpu() < thread + Duration::from_millis(50) {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "no time is counted"
            );
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_seconds(std::process::id()) > process);
        assert!(resident_mib(std::process::id()) > 1.0);
    }

    #[test]
    fn what_was_stolen_is_the_eighth_figure_of_the_line_of_all_processors() {
        let before = "cpu  10 20 30 40 50 60 70 80 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n";
        let after = "cpu  20 30 40 50 60 70 80 110 95 0\ncpu0 9 9 9 9 9 9 9 9 9 0\nintr 7\n";
        let [before, after] = [before, after].map(|stat| Ticks::parse(stat).unwrap());
        assert!((after.stolen_since(before) - 0.3).abs() < 1e-9);
        assert_eq!(after.stolen_since(after), 0.0);
        for other in [
            "",
            "cpu0 1 2 3 4 5 6 7 8",
            "cpu  1 2 3 4 5 6 7",
            "cpu  1 2 3 4 5 6 7 x",
        ] {
            assert!(Ticks::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_process_that_is_dropped_is_gone() -> Result<()> {
        let process = Process::start(Command::new("sleep").arg("600"))?;
        let pid = process.id();
        assert!(Stat::of(pid).is_some());
        drop(process);
        assert!(Stat::of(pid).is_none());
        Ok(())
    }
}
