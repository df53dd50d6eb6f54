//! Wakes the generator on time. The runtime's own timer counts in milliseconds and rounds up, which is more than a
//! commit takes.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// One timer of the system's.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    #[expect(
        deprecated,
        reason = "what is wrong with it are types that close what they lend; this one owns its descriptor"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        Ok(Self { timer })
    }

    /// Waits until then.
    pub(super) async fn until(&self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: timespec(Duration::ZERO),
            it_value: timespec(left),
        };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut times = [0; 8];
            match rustix::io::read(self.timer.get_ref(), &mut times) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_wakes_once_and_not_before() {
        let alarm = Alarm::new().unwrap();
        for micros in [300, 1, 2_500] {
            let due = Instant::now() + Duration::from_micros(micros);
            alarm.until(due).await.unwrap();
            assert!(Instant::now() >= due);
        }
        let passed = Instant::now();
        alarm.until(passed).await.unwrap();
    }
}
