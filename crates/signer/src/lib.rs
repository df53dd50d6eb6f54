//! The only code of Fencepost that sees keys.
