// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

import {TestToken} from "./TestToken.sol";

/// @title A token that keeps a share of every transfer, so that the payee receives less than the proxy's event says.
contract FeeOnTransferToken is TestToken {
    uint256 private constant WHOLE_BPS = 10_000;

    address public immutable feeCollector;
    uint256 public feeBps;

    error FeeTooHigh(uint256 bps);

    constructor(address[] memory holders, uint256 amount, address feeCollector_, uint256 feeBps_)
        TestToken("Fee On Transfer", "FOT", 6, holders, amount)
    {
        feeCollector = feeCollector_;
        setFeeBps(feeBps_);
    }

    /// @notice Zero switches the fee off.
    function setFeeBps(uint256 bps) public {
        if (bps > WHOLE_BPS) revert FeeTooHigh(bps);
        feeBps = bps;
    }

    function _move(address from, address to, uint256 amount) internal override {
        uint256 fee = (amount * feeBps) / WHOLE_BPS;
        super._move(from, to, amount - fee);
        if (fee != 0) super._move(from, feeCollector, fee);
    }
}
