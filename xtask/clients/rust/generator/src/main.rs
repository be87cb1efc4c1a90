//! Writes the client of a document: `generator DOCUMENT FILE`.

use std::error::Error;
use std::{env, fs};

use progenitor::{GenerationSettings, Generator, InterfaceStyle};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(document), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("usage: generator DOCUMENT FILE".into());
    };
    let document = serde_json::from_str(&fs::read_to_string(document)?)?;
    let mut settings = GenerationSettings::default();
    settings.with_interface(InterfaceStyle::Positional);
    let tokens = Generator::new(&settings).generate_tokens(&document)?;
    fs::write(file, prettyplease::unparse(&syn::parse2(tokens)?))?;
    Ok(())
}
