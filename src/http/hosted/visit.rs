//! Who visits which link, and how often.

use super::{
    link::Link,
    look::Page,
    view::{self, Surroundings},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        refusal::{Refusal, RefusalKind},
        secure_payment::access::Payer,
    },
    flows::{
        FlowError,
        secure_payments::{
            open::{self, Look},
            opened::{self, Opened},
        },
    },
    http::{
        error::Problem,
        gate::{address::CallerAddress, page::call_origin, rate_limits::Meter},
    },
};
use poem::{FromRequest, Request, RequestBody};
use std::{net::IpAddr, sync::Arc};

/// A visit to a link.
pub(super) struct Visit {
    /// The handles of the service.
    pub(super) ctx: Ctx,
    /// From where it comes.
    pub(super) address: Option<IpAddr>,
    token: String,
    meter: Option<Arc<Meter>>,
    is_own_page: bool,
}

/// What a visit finds.
pub(super) enum Visited {
    /// A link, whatever its state.
    Found(Box<Opened>),
    /// Nobody made such a link.
    Unknown,
    /// It came too soon, or nobody made such a link and its address goes on to guess. After so many seconds it may come again.
    TooOften(u64),
}

impl<'a> FromRequest<'a> for Visit {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> poem::Result<Self> {
        let ctx = request.data::<Ctx>().cloned().ok_or_else(Problem::internal)?;
        Ok(Self {
            ctx,
            address: request.data::<CallerAddress>().and_then(|address| address.0),
            token: request.raw_path_param("token").unwrap_or_default().to_owned(),
            meter: request.data::<Arc<Meter>>().cloned(),
            is_own_page: call_origin(request).is_same_origin,
        })
    }
}

impl Visit {
    /// Counts the visit and looks the link up. What nobody made is counted for its address alone: else whoever invents tokens
    /// would fill the memory of counts.
    pub(super) async fn find(&self) -> Result<Visited, Problem> {
        let count = |count: fn(&Meter, &str) -> Result<(), Problem>| match &self.meter {
            Some(meter) => count(meter, &self.token),
            None => Ok(()),
        };
        let too_often = |refused: Problem| Ok(Visited::TooOften(refused.retry_after_s.unwrap_or(1)));
        let further = self.meter.as_ref().map(|meter| meter.admit_further_visit(&self.token));
        let is_counted = match further.transpose() {
            Ok(is_counted) => is_counted.unwrap_or(true),
            Err(refused) => return too_often(refused),
        };
        let opened = match is_token(&self.token) {
            true => opened::by_token(&self.ctx, &self.token).await,
            false => Err(Refusal::not_found("").into()),
        };
        match opened {
            Ok(opened) => {
                if !is_counted && let Err(refused) = count(Meter::admit_visit) {
                    return too_often(refused);
                }
                Ok(Visited::Found(Box::new(opened)))
            }
            Err(FlowError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
                match count(|meter, _| meter.admit_unknown_page()) {
                    Ok(()) => Ok(Visited::Unknown),
                    Err(refused) => too_often(refused),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The link, for scripts. Errors: nobody made it (404), too many visits (429).
    pub(super) async fn opened(&self) -> Result<Box<Opened>, Problem> {
        match self.find().await? {
            Visited::Found(opened) => Ok(opened),
            Visited::Unknown => Err(Refusal::not_found("Secure payment not found").into()),
            Visited::TooOften(seconds) => Err(crate::http::error::too_many(seconds)),
        }
    }

    /// Refuses calls that no page of this service makes. Errors: 403.
    pub(super) fn require_own_page(&self) -> Result<(), Problem> {
        match self.is_own_page {
            true => Ok(()),
            false => Err(Refusal::forbidden("Only the payment page itself calls this").into()),
        }
    }

    /// What somebody sees who names no wallet.
    pub(super) async fn shown(&self, page: &Page, opened: &Opened) -> Result<Link, Problem> {
        view::link(&self.ctx, page, opened, None, self.surroundings(opened).await?)
    }

    /// What a wallet sees, with what it may and what it holds. Errors: it is no wallet (400).
    pub(super) async fn shown_to(&self, page: &Page, opened: &Opened, wallet: &str) -> Result<Link, Problem> {
        let look = look(wallet)?;
        if opened.payable().is_err() {
            return self.shown(page, opened).await;
        }
        let shown = open::run(&self.ctx, opened, &look).await?;
        view::link(&self.ctx, page, opened, Some(&shown), self.surroundings(opened).await?)
    }

    async fn surroundings(&self, opened: &Opened) -> Result<Surroundings, Problem> {
        Ok(Surroundings {
            is_foreign: opened::has_foreign_redirect(&self.ctx, opened).await?,
            is_seen: opened.is_seen(&self.ctx).await?,
        })
    }
}

/// Who looks. Errors: it is no address (400).
pub(super) fn look(wallet: &str) -> Result<Look, Problem> {
    let wallet = Address::parse(wallet).map_err(|error| Refusal::field("wallet", error.to_string()))?;
    Ok(Look {
        payer: Some(Payer { wallet, eoa: None }),
        source: None,
    })
}

/// Whether a text may be a token, so that it can stand in an address.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
