// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

/// @title A dollar token that behaves as Tether on Tron does: `transfer` returns false although it succeeds.
/// @notice The constructor writes no storage, so that the code alone makes the token at any address.
contract TronUsd {
    uint8 public constant decimals = 6;
    uint256 private constant WHOLE_BPS = 10_000;

    address public immutable owner;
    bytes32 private immutable packedName;
    bytes32 private immutable packedSymbol;
    bool private immutable transferReturn;

    uint256 public totalSupply;
    uint256 public basisPointsRate;
    uint256 public maximumFee;
    bool public approvalNeedsReset;
    mapping(address holder => uint256 amount) public balanceOf;
    mapping(address holder => mapping(address spender => uint256 amount)) public allowance;
    mapping(address holder => bool listed) public isBlackListed;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Params(uint256 feeBasisPoints, uint256 maxFee);
    event AddedBlackList(address indexed user);
    event RemovedBlackList(address indexed user);

    modifier onlyOwner() {
        require(msg.sender == owner, "only the owner may do this");
        _;
    }

    constructor(address owner_, bytes32 name_, bytes32 symbol_, bool transferReturn_) {
        owner = owner_;
        packedName = name_;
        packedSymbol = symbol_;
        transferReturn = transferReturn_;
    }

    function name() external view returns (string memory) {
        return _unpacked(packedName);
    }

    function symbol() external view returns (string memory) {
        return _unpacked(packedSymbol);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        _move(msg.sender, to, amount);
        return transferReturn;
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(allowed >= amount, "the allowance is too small");
        // The largest allowance never shrinks, as wallets that approve "unlimited" expect.
        if (allowed != type(uint256).max) allowance[from][msg.sender] = allowed - amount;
        _move(from, to, amount);
        return true;
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        bool changes = amount != 0 && allowance[msg.sender][spender] != 0;
        require(!approvalNeedsReset || !changes, "the allowance must be zero first");
        allowance[msg.sender][spender] = amount;
        emit Approval(msg.sender, spender, amount);
        return true;
    }

    function mint(address to, uint256 amount) external onlyOwner {
        totalSupply += amount;
        balanceOf[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    /// @notice The owner receives the fee of each transfer. Zero switches the fee off.
    function setParams(uint256 feeBasisPoints, uint256 maxFee) external onlyOwner {
        require(feeBasisPoints <= WHOLE_BPS, "the fee is too high");
        basisPointsRate = feeBasisPoints;
        maximumFee = maxFee;
        emit Params(feeBasisPoints, maxFee);
    }

    /// @notice Decides whether a change of a non-zero allowance needs a reset to zero first.
    function setApprovalNeedsReset(bool needed) external onlyOwner {
        approvalNeedsReset = needed;
    }

    function addBlackList(address holder) external onlyOwner {
        isBlackListed[holder] = true;
        emit AddedBlackList(holder);
    }

    function removeBlackList(address holder) external onlyOwner {
        isBlackListed[holder] = false;
        emit RemovedBlackList(holder);
    }

    function _move(address from, address to, uint256 amount) private {
        require(!isBlackListed[from], "the sender is on the blacklist");
        uint256 balance = balanceOf[from];
        require(balance >= amount, "the balance is too small");
        uint256 fee = (amount * basisPointsRate) / WHOLE_BPS;
        if (fee > maximumFee) fee = maximumFee;
        balanceOf[from] = balance - amount;
        balanceOf[to] += amount - fee;
        emit Transfer(from, to, amount - fee);
        if (fee != 0) {
            balanceOf[owner] += fee;
            emit Transfer(from, owner, fee);
        }
    }

    function _unpacked(bytes32 packed) private pure returns (string memory) {
        uint256 length = 0;
        while (length < 32 && packed[length] != 0) length++;
        bytes memory text = new bytes(length);
        for (uint256 i = 0; i < length; i++) text[i] = packed[i];
        return string(text);
    }
}
