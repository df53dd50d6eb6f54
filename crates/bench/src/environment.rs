//! What the figures were taken on. Rates mean nothing without it.

use std::fs;

use serde_json::{Value, json};

/// The machine and the build.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    cores: usize,
    memory_mib: u64,
    cpu: String,
    kernel: String,
    load: String,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let meminfo = text("/proc/meminfo");
        let kib = field(&meminfo, "MemTotal").and_then(|it| it.split(' ').next()?.parse().ok());
        let cpuinfo = text("/proc/cpuinfo");
        let load = text("/proc/loadavg");
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib.unwrap_or(0_u64) / 1024,
            cpu: field(&cpuinfo, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
        }
    }

    /// Figures of a debug build say nothing about what users get.
    pub(crate) const fn is_debug() -> bool {
        cfg!(debug_assertions)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "build": if Self::is_debug() { "debug" } else { "release" },
            "cores": self.cores,
            "memoryMiB": self.memory_mib,
            "cpu": self.cpu,
            "kernel": self.kernel,
            "loadAtStart": self.load,
        })
    }

    pub(crate) fn line(&self) -> String {
        let Self {
            cores,
            memory_mib,
            cpu,
            kernel,
            load,
        } = self;
        format!("{cores} cores ({cpu}), {memory_mib} MiB, Linux {kernel}, load {load} at the start")
    }
}

/// The value of a line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    };
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "MemTotalX:  1 kB\nMemTotal:   24 kB\nmodel name\t: A: B\n";
        assert_eq!(field(text, "MemTotal"), Some("24 kB"));
        assert_eq!(field(text, "model name"), Some("A: B"));
        assert_eq!(field(text, "none"), None);
    }
}
