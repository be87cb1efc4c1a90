//! How the batch contract is called: several payments of several kinds in one transaction.

use alloy::sol;

sol! {
    /// One payment of a batch.
    #[derive(Debug)]
    struct RequestDetail {
        /// Receiver.
        address recipient;
        /// Units, or 8-decimal fiat units when converted.
        uint256 requestAmount;
        /// Token alone, or hashes from invoice to payment currency; empty for the native coin.
        address[] path;
        /// Reference, eight bytes.
        bytes paymentReference;
        /// Units of the fee.
        uint256 feeAmount;
        /// Most units that a conversion may spend.
        uint256 maxToSpend;
        /// Oldest accepted rate in seconds; 0 accepts any.
        uint256 maxRateTimespan;
    }
    /// Payments of one kind.
    #[derive(Debug)]
    struct MetaDetail {
        /// Number by which the contract knows the kind.
        uint256 paymentNetworkId;
        /// The payments.
        RequestDetail[] requestDetails;
    }
    /// Pays them all, or none.
    #[derive(Debug)]
    function batchPayments(MetaDetail[] metaDetails, address[][] pathsToUSD, address feeAddress) external payable;
}
