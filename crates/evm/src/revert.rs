//! Why an execution was reverted, from the bytes it returned and the node's words.

use fencepost_domain::{U256, amount};

use crate::rpc::Fault;
use crate::text;

const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];
const PREFIX: &str = "execution reverted";

/// Whether the node says that the execution itself fails.
pub(crate) fn is_revert(fault: &Fault) -> bool {
    let Fault::Node { code, message, .. } = fault else {
        return false;
    };
    let message = message.to_ascii_lowercase();
    // Compilers once wrote assertions as invalid instructions.
    let texts = [
        PREFIX,
        "vm execution error",
        "invalid opcode",
        "invalid jump",
    ];
    *code == 3 || texts.iter().any(|text| message.contains(text))
}

/// The reason that the node's error tells.
pub(crate) fn reason(fault: &Fault) -> Option<String> {
    let Fault::Node { message, data, .. } = fault else {
        return None;
    };
    let told = data.as_deref().and_then(decoded);
    told.or_else(|| {
        let at = message.to_ascii_lowercase().find(PREFIX)?;
        let rest = message.get(at + PREFIX.len()..)?.trim_start_matches(':');
        let rest = rest.trim();
        (!rest.is_empty()).then(|| rest.to_owned())
    })
    .or_else(|| (!message.to_ascii_lowercase().contains(PREFIX)).then(|| message.clone()))
}

/// The reason in what was returned: a text, a panic's code, or which custom error.
pub(crate) fn decoded(hex: &str) -> Option<String> {
    let data = amount::bytes(hex).ok()?;
    let (selector, arguments) = data.split_first_chunk::<4>()?;
    let told = match *selector {
        ERROR => error_text(arguments),
        PANIC => arguments.get(..32).map(panic_text),
        _ => None,
    };
    let words = told.unwrap_or_else(|| {
        format!(
            "custom error {}",
            alloy_primitives::hex::encode_prefixed(selector)
        )
    });
    Some(text::cleaned(&words))
}

/// The one string that ABI-encoded arguments hold.
fn error_text(arguments: &[u8]) -> Option<String> {
    let at = length(arguments.get(..32)?)?;
    let tail = arguments.get(at..)?;
    let size = length(tail.get(..32)?)?;
    let bytes = tail.get(32..)?.get(..size)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn length(word: &[u8]) -> Option<usize> {
    usize::try_from(U256::try_from_be_slice(word)?).ok()
}

fn panic_text(word: &[u8]) -> String {
    let code = U256::try_from_be_slice(word).unwrap_or_default();
    let meaning = match u64::try_from(code).unwrap_or(u64::MAX) {
        0x01 => ": assertion failed",
        0x11 => ": arithmetic overflow",
        0x12 => ": division by zero",
        0x21 => ": no such enum value",
        0x31 => ": pop of an empty array",
        0x32 => ": index out of bounds",
        0x41 => ": out of memory",
        _ => "",
    };
    format!("panic {code:#04x}{meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> String {
        let word = |n: usize| format!("{n:064x}");
        let hex = alloy_primitives::hex::encode(text);
        format!(
            "0x08c379a0{}{}{hex}{}",
            word(32),
            word(text.len()),
            "0".repeat(64)
        )
    }

    #[test]
    fn returned_bytes_tell_a_text_a_panic_or_which_error() {
        let check = |hex: &str, expected: Option<&str>| {
            assert_eq!(decoded(hex).as_deref(), expected, "{hex}");
        };
        check(&encoded("not the owner"), Some("not the owner"));
        let panic = format!("0x4e487b71{:064x}", 0x11);
        check(&panic, Some("panic 0x11: arithmetic overflow"));
        let panic = format!("0x4e487b71{:064x}", 0x99);
        check(&panic, Some("panic 0x99"));
        check("0xdeadbeef0011", Some("custom error 0xdeadbeef"));
        check("0x", None);
        check("0x08c3", None);
        check("nonsense", None);
        // Lengths beyond the data are no text.
        let beyond = format!("0x08c379a0{}{}", "f".repeat(64), "f".repeat(64));
        check(&beyond, Some("custom error 0x08c379a0"));
        check("0x4e487b71", Some("custom error 0x4e487b71"));
    }

    #[test]
    fn every_clients_way_to_say_reverted_is_understood() {
        let check = |code, message: &str, data: Option<&str>, revert, why: Option<&str>| {
            let fault = Fault::Node {
                code,
                message: message.to_owned(),
                data: data.map(ToOwned::to_owned),
            };
            assert_eq!(is_revert(&fault), revert, "{message}");
            if revert {
                assert_eq!(reason(&fault).as_deref(), why, "{message}");
            }
        };
        check(3, "execution reverted", None, true, None);
        check(3, "execution reverted: paused", None, true, Some("paused"));
        check(
            3,
            "execution reverted: x",
            Some(&encoded("y")),
            true,
            Some("y"),
        );
        check(-32000, "Execution reverted", None, true, None);
        check(
            -32000,
            "err: execution reverted: a: b",
            None,
            true,
            Some("a: b"),
        );
        let nethermind = Some("VM execution error.");
        check(-32015, "VM execution error.", None, true, nethermind);
        check(
            -32015,
            "VM execution error.",
            Some(&encoded("z")),
            true,
            Some("z"),
        );
        let opcode = "invalid opcode: INVALID";
        check(-32000, opcode, None, true, Some(opcode));
        check(-32000, "insufficient funds for transfer", None, false, None);
    }
}
