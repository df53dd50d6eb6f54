//! Asking again, for verbs that follow something for as long as the user wants.

use std::time::Duration;

use tokio::time::sleep;

use super::table::plain;
use crate::failure::Failure;

/// How long until a node that does not answer is asked again, first and at most.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// Asks until there is an answer or a refusal that stays. Each failed try is one line on stderr.
pub(super) async fn until_answered<T>(
    mut ask: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut pause = WAIT.0;
    loop {
        match ask().await {
            Err(Failure::NotNow { told, after }) => {
                // A node that names a time knows better than we do, within reason.
                let wait = after.unwrap_or(pause).min(WAIT.1);
                eprintln!("warning: {}; asking again in {wait:?}", plain(&told));
                sleep(wait).await;
                pause = (pause * 2).min(WAIT.1);
            }
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_asked_again_and_what_stays_is_not() {
        let not_now = |after| Failure::NotNow {
            told: "away".to_owned(),
            after,
        };
        let mut answers = vec![
            Ok(7),
            Err(not_now(None)),
            Err(not_now(Some(Duration::from_secs(3)))),
            Err(not_now(None)),
        ];
        let began = Instant::now();
        let answer = until_answered(async || answers.pop().expect("one more")).await;
        assert_eq!(answer.ok(), Some(7));
        assert_eq!(began.elapsed(), Duration::from_millis(500 + 3_000 + 2_000));
        let mut asked = 0;
        let refused = until_answered(async || {
            asked += 1;
            Err::<(), _>(Failure::Refused("no".to_owned()))
        });
        assert!(refused.await.is_err());
        assert_eq!(asked, 1);
    }
}
