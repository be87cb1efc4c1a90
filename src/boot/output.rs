//! Output of `prs admin`.

use clap::Args;
use serde_json::Value;
use std::io::{self, Write};

/// Writes a line to standard output like `println!`. Ends the command when the reader has closed the output.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::boot::output::write(&format!("{}\n", format_args!($($part)*)))
    };
}
pub(super) use say;

/// Output format.
#[derive(Debug, Args)]
pub struct Output {
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Writes to standard output. The command ends if the reader, such as `head`, has closed the output.
pub(super) fn write(text: &str) {
    let mut out = io::stdout();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

pub(super) fn print(output: &Output, result: &Value) {
    if output.json {
        say!("{result}");
        return;
    }
    for (name, value) in result.as_object().into_iter().flatten() {
        say!(
            "{name}: {}",
            value.as_str().map_or_else(|| value.to_string(), for_terminal)
        );
    }
}

/// Escapes a string for a terminal: characters that would move the cursor or change the text direction are written as
/// escapes.
fn for_terminal(text: &str) -> String {
    let is_quote = |letter: char| matches!(letter, '"' | '\'' | '\\');
    let parts = text.split_inclusive(is_quote);
    let shown = parts.map(|part| {
        let letters = part.trim_end_matches(is_quote);
        format!("{}{}", letters.escape_debug(), &part[letters.len()..])
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        for (text, shown) in [
            ("a\x1b]0;pwn\x07", "a\\u{1b}]0;pwn\\u{7}"),
            ("ab\u{202e}cd\u{2066}", "ab\\u{202e}cd\\u{2066}"),
            ("two\nlines\r", "two\\nlines\\r"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("L'été \"à\" 5 € \\o/ दुकान", "L'été \"à\" 5 € \\o/ दुकान"),
        ] {
            assert_eq!(for_terminal(text), shown);
        }
    }
}
