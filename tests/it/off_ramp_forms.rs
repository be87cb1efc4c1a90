//! Forms as tests fill them in.

use prs::domain::payer::{Beneficiary, Person};

/// A person of this family name.
pub fn person(family_name: &str) -> Person {
    let text = |text: &str| text.to_owned();
    Person {
        email: text("ada@example.com"),
        first_name: text("Ada"),
        last_name: text(family_name),
        beneficiary: Beneficiary::Individual,
        company_name: None,
        date_of_birth: text("1985-12-12"),
        address_line_1: text("123 Main Street"),
        address_line_2: None,
        city: text("New York"),
        state: text("NY"),
        postcode: text("10001"),
        country: text("US"),
        nationality: text("US"),
        phone: text("+12125550123"),
        ssn: text("123-45-6789"),
        source_of_funds: None,
        business_activity: None,
    }
}
