//! Visits to links: lookup and rate limits.

use super::{
    link::VisitedLink,
    look::PageFrame,
    view::{self, LinkFacts},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        network::Family,
        refusal::{Refusal, RefusalKind},
        secure_payment::access::LinkPayer,
    },
    flows::{
        FlowError,
        secure_payments::{
            multicall,
            open::{self, LinkVisit},
            opened::{self, OpenedLink},
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
pub(super) struct PageVisit {
    /// Application context.
    pub(super) ctx: Ctx,
    /// IP address of the visitor.
    pub(super) address: Option<IpAddr>,
    token: String,
    meter: Option<Arc<Meter>>,
    is_own_page: bool,
}

/// Result of a visit.
pub(super) enum VisitResult {
    /// A link in any status.
    Found(Box<OpenedLink>),
    /// No such link.
    Unknown,
    /// The visitor is rate limited, for frequent visits or for guessed tokens. The visit may be retried after this
    /// number of seconds.
    TooOften(u64),
}

impl<'a> FromRequest<'a> for PageVisit {
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

impl PageVisit {
    /// Counts the visit and looks up the link. Visits to unknown tokens are counted only by IP address. Otherwise
    /// invented tokens would fill the memory of counters.
    pub(super) async fn find(&self) -> Result<VisitResult, Problem> {
        let count = |count: fn(&Meter, &str) -> Result<(), Problem>| match &self.meter {
            Some(meter) => count(meter, &self.token),
            None => Ok(()),
        };
        let too_often = |refused: Problem| Ok(VisitResult::TooOften(refused.retry_after_s.unwrap_or(1)));
        let further = self.meter.as_ref().map(|meter| meter.admit_further_visit(&self.token));
        let is_counted = match further.transpose() {
            Ok(is_counted) => is_counted.unwrap_or(true),
            Err(refused) => return too_often(refused),
        };
        let opened = if is_token(&self.token) {
            opened::by_token(&self.ctx, &self.token).await
        } else {
            Err(Refusal::not_found("").into())
        };
        match opened {
            Ok(opened) => {
                if !is_counted && let Err(refused) = count(Meter::admit_visit) {
                    return too_often(refused);
                }
                Ok(VisitResult::Found(Box::new(opened)))
            }
            Err(FlowError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
                match count(|meter, _| meter.admit_unknown_page()) {
                    Ok(()) => Ok(VisitResult::Unknown),
                    Err(refused) => too_often(refused),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The link, for scripts. Errors: unknown token (404), too many visits (429).
    pub(super) async fn opened(&self) -> Result<Box<OpenedLink>, Problem> {
        match self.find().await? {
            VisitResult::Found(opened) => Ok(opened),
            VisitResult::Unknown => Err(Refusal::not_found("Secure payment not found").into()),
            VisitResult::TooOften(seconds) => Err(crate::http::error::too_many(seconds)),
        }
    }

    /// Refuses calls that do not come from a page of this service. Errors: 403.
    pub(super) fn require_own_page(&self) -> Result<(), Problem> {
        if self.is_own_page {
            Ok(())
        } else {
            Err(Refusal::forbidden("Only the payment page may call this endpoint").into())
        }
    }

    /// The link as a visitor without a wallet sees it.
    pub(super) async fn shown(&self, page: &PageFrame, opened: &OpenedLink) -> Result<VisitedLink, Problem> {
        view::link(&self.ctx, page, opened, None, self.surroundings(opened).await?)
    }

    /// The link as a wallet sees it, with access decision and balances. Errors: not a wallet address (400).
    pub(super) async fn shown_to(
        &self,
        page: &PageFrame,
        opened: &OpenedLink,
        wallet: &str,
    ) -> Result<VisitedLink, Problem> {
        let look = look(wallet)?;
        if opened.payable().is_err() || opened.unlocked().is_err() {
            return self.shown(page, opened).await;
        }
        let shown = open::run(&self.ctx, opened, &look).await?;
        view::link(&self.ctx, page, opened, Some(&shown), self.surroundings(opened).await?)
    }

    async fn surroundings(&self, opened: &OpenedLink) -> Result<LinkFacts, Problem> {
        let multicall = if opened.payment.is_multicall() {
            Some(multicall::of(&self.ctx, opened).await?)
        } else {
            None
        };
        Ok(LinkFacts {
            is_foreign: opened::has_foreign_redirect(&self.ctx, opened).await?,
            signs: opened.payment_signs(&self.ctx).await?,
            credited_until: match opened.payment.network.family() {
                Family::Tron => opened.credited_until(&self.ctx).await?,
                Family::Evm => None,
            },
            multicall,
        })
    }
}

/// The viewer of a link. Errors: not an address (400).
pub(super) fn look(wallet: &str) -> Result<LinkVisit, Problem> {
    let wallet = Address::parse(wallet).map_err(|error| Refusal::field("wallet", error.to_string()))?;
    Ok(LinkVisit {
        payer: Some(LinkPayer { wallet, eoa: None }),
        source: None,
        is_safe: false,
    })
}

/// Whether a text has the form of a token and is safe in a URL path.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
