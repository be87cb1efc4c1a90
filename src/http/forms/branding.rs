//! The look of the page of a secure payment, as clients see it.

use crate::http::forms::wire::UlidText;
use poem_openapi::Object;

/// Colours and texts of a payment page. This service only has the branding of its operator, so members of this type are
/// always null.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Branding {
    /// Id of the branding
    pub id: UlidText,
    /// Row id of the client ID that the branding belongs to
    pub client_id_id: Option<UlidText>,
    /// Orchestrator that the branding belongs to
    pub orchestrator_id: Option<UlidText>,
    /// Path of the logo. Example: `/branding/logo.png`
    #[oai(validator(max_length = 255))]
    pub logo_path: Option<String>,
    /// Background colour of the page. Example: `#f3f4f6`
    #[oai(validator(max_length = 7, pattern = "^#[0-9a-fA-F]{6}$"))]
    pub page_background_color: Option<String>,
    /// Background colour of the card. Example: `#ffffff`
    #[oai(validator(max_length = 7, pattern = "^#[0-9a-fA-F]{6}$"))]
    pub card_background_color: Option<String>,
    /// Colour of the button. Example: `#00d395`
    #[oai(validator(max_length = 7, pattern = "^#[0-9a-fA-F]{6}$"))]
    pub primary_action_color: Option<String>,
    /// Colour of text. Example: `#475569`
    #[oai(validator(max_length = 7, pattern = "^#[0-9a-fA-F]{6}$"))]
    pub primary_text_color: Option<String>,
    /// Colour of secondary text. Example: `#94a3b8`
    #[oai(validator(max_length = 7, pattern = "^#[0-9a-fA-F]{6}$"))]
    pub secondary_text_color: Option<String>,
    /// Path of the terms. Example: `/branding/terms.html`
    #[oai(validator(max_length = 255))]
    pub terms_path: Option<String>,
    /// Path of the privacy notice. Example: `/branding/privacy.html`
    #[oai(validator(max_length = 255))]
    pub privacy_path: Option<String>,
    /// Whether the page names this service. Example: `false`
    pub display_service_branding: Option<bool>,
}
