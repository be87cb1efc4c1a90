//! Calls of the batch contract: several payments of several kinds in one transaction.

use alloy::sol;

sol! {
    /// One payment of a batch.
    #[derive(Debug)]
    struct RequestDetail {
        /// Receiver.
        address recipient;
        /// Amount in units of the currency; for a conversion, in fiat units with 8 decimals.
        uint256 requestAmount;
        /// For a token, its address. For a conversion, the currency hashes from the invoice currency to the payment
        /// currency. For the native coin, empty.
        address[] path;
        /// Reference, eight bytes.
        bytes paymentReference;
        /// Units of the fee.
        uint256 feeAmount;
        /// Maximum number of units that the payer spends in a conversion.
        uint256 maxToSpend;
        /// Maximum age of the rate in seconds; 0 accepts any age.
        uint256 maxRateTimespan;
    }
    /// Payments of one kind.
    #[derive(Debug)]
    struct MetaDetail {
        /// Index of the kind of payment in the contract.
        uint256 paymentNetworkId;
        /// The payments.
        RequestDetail[] requestDetails;
    }
    /// Pays all payments in one transaction, or none.
    #[derive(Debug)]
    function batchPayments(MetaDetail[] metaDetails, address[][] pathsToUSD, address feeAddress) external payable;
}
