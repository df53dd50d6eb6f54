//! `docs/state_machine.md` says what the code does: it is generated here and compared.

mod page;
mod samples;

use std::path::Path;

#[test]
fn the_page_about_states_is_what_the_code_does() {
    let path = Path::new("../../docs/state_machine.md");
    let page = page::page();
    if std::env::var_os("FENCEPOST_BLESS").is_some() {
        std::fs::write(path, page).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == page,
        "{} is stale: run FENCEPOST_BLESS=1 cargo test -p fencepost-domain",
        path.display()
    );
}
