//! Statements that are put together from parts: a batch pays for what it does.

/// The lines of a text that a call needs. `--? a b` begins a part that whoever needs `a` or `b` needs, `--.` ends it.
pub(crate) fn needed(text: &str, is_needed: impl Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut wanted = true;
    for line in text.lines() {
        if let Some(names) = line.strip_prefix("--? ") {
            wanted = names.split(' ').any(&is_needed);
        } else if line == "--." {
            wanted = true;
        } else if wanted {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}
