// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

interface IERC20FeeProxy {
    function transferFromWithReferenceAndFee(
        address tokenAddress,
        address to,
        uint256 amount,
        bytes calldata paymentReference,
        uint256 feeAmount,
        address feeAddress
    ) external;
}

/// @title Replaces the deployed ERC20RecurringPaymentProxy on the local chain, with the same interface.
/// @notice A subscriber signs a schedule once and approves this contract; a relayer triggers each payment when it is
/// due. The payment goes through the ERC20FeeProxy, so that it emits the event that readers already watch.
contract RecurringPaymentProxy {
    struct SchedulePermit {
        address subscriber;
        address token;
        address recipient;
        address feeAddress;
        uint128 amount;
        uint128 feeAmount;
        uint128 relayerFee;
        uint32 periodSeconds;
        uint32 firstPayment;
        uint8 totalPayments;
        uint256 nonce;
        uint256 deadline;
        bool strictOrder;
    }

    bytes32 public constant DEFAULT_ADMIN_ROLE = 0x00;
    bytes32 public constant RELAYER_ROLE = keccak256("RELAYER_ROLE");

    string private constant NAME = "ERC20RecurringPaymentProxy";
    string private constant VERSION = "1";
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant SCHEDULE_TYPEHASH = keccak256(
        "SchedulePermit(address subscriber,address token,address recipient,address feeAddress,uint128 amount,"
        "uint128 feeAmount,uint128 relayerFee,uint32 periodSeconds,uint32 firstPayment,uint8 totalPayments,"
        "uint256 nonce,uint256 deadline,bool strictOrder)"
    );
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    address public owner;
    bool public paused;
    IERC20FeeProxy public erc20FeeProxy;
    mapping(bytes32 digest => uint256 bitmap) public triggeredPaymentsBitmap;
    mapping(bytes32 digest => uint8 index) public lastPaymentIndex;
    mapping(bytes32 role => mapping(address account => bool member)) public hasRole;
    bool private entered;

    event EIP712DomainChanged();
    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);
    event Paused(address account);
    event Unpaused(address account);
    event RoleAdminChanged(bytes32 indexed role, bytes32 indexed previousAdminRole, bytes32 indexed newAdminRole);
    event RoleGranted(bytes32 indexed role, address indexed account, address indexed sender);
    event RoleRevoked(bytes32 indexed role, address indexed account, address indexed sender);

    error ERC20RecurringPaymentProxy__AlreadyPaid();
    error ERC20RecurringPaymentProxy__BadSignature();
    error ERC20RecurringPaymentProxy__IndexOutOfBounds();
    error ERC20RecurringPaymentProxy__IndexTooLarge();
    error ERC20RecurringPaymentProxy__NotDueYet();
    error ERC20RecurringPaymentProxy__PaymentOutOfOrder();
    error ERC20RecurringPaymentProxy__SignatureExpired();
    error ERC20RecurringPaymentProxy__ZeroAddress();

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    modifier onlyRole(bytes32 role) {
        require(hasRole[role][msg.sender], "AccessControl: account is missing the role");
        _;
    }

    modifier whenNotPaused() {
        require(!paused, "Pausable: paused");
        _;
    }

    modifier nonReentrant() {
        require(!entered, "ReentrancyGuard: reentrant call");
        entered = true;
        _;
        entered = false;
    }

    constructor(address admin, address relayer, address feeProxy) {
        if (admin == address(0) || relayer == address(0) || feeProxy == address(0)) {
            revert ERC20RecurringPaymentProxy__ZeroAddress();
        }
        _grant(DEFAULT_ADMIN_ROLE, admin);
        _grant(RELAYER_ROLE, relayer);
        _setOwner(admin);
        erc20FeeProxy = IERC20FeeProxy(feeProxy);
    }

    function triggerRecurringPayment(
        SchedulePermit calldata p,
        bytes calldata signature,
        uint8 index,
        bytes calldata paymentReference
    ) external whenNotPaused onlyRole(RELAYER_ROLE) nonReentrant {
        bytes32 digest = _digest(p);
        if (_recover(digest, signature) != p.subscriber) revert ERC20RecurringPaymentProxy__BadSignature();
        if (block.timestamp > p.deadline) revert ERC20RecurringPaymentProxy__SignatureExpired();
        if (p.strictOrder) {
            if (uint256(index) != uint256(lastPaymentIndex[digest]) + 1) {
                revert ERC20RecurringPaymentProxy__PaymentOutOfOrder();
            }
            lastPaymentIndex[digest] = index;
        }
        if (index == 0 || index > p.totalPayments) revert ERC20RecurringPaymentProxy__IndexOutOfBounds();
        if (block.timestamp < uint256(p.firstPayment) + (uint256(index) - 1) * p.periodSeconds) {
            revert ERC20RecurringPaymentProxy__NotDueYet();
        }
        uint256 bit = 1 << index;
        if (triggeredPaymentsBitmap[digest] & bit != 0) revert ERC20RecurringPaymentProxy__AlreadyPaid();
        triggeredPaymentsBitmap[digest] |= bit;

        _pay(p, paymentReference);
    }

    function eip712Domain()
        external
        view
        returns (
            bytes1 fields,
            string memory name,
            string memory version,
            uint256 chainId,
            address verifyingContract,
            bytes32 salt,
            uint256[] memory extensions
        )
    {
        // ERC-5267: name, version, chain id and contract are part of the domain; salt is not.
        return (hex"0f", NAME, VERSION, block.chainid, address(this), bytes32(0), new uint256[](0));
    }

    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        // ERC-165 itself and the access control interface.
        return interfaceId == 0x01ffc9a7 || interfaceId == 0x7965db0b;
    }

    function getRoleAdmin(bytes32) external pure returns (bytes32) {
        return DEFAULT_ADMIN_ROLE;
    }

    function grantRole(bytes32 role, address account) external onlyRole(DEFAULT_ADMIN_ROLE) {
        _grant(role, account);
    }

    function revokeRole(bytes32 role, address account) external onlyRole(DEFAULT_ADMIN_ROLE) {
        _revoke(role, account);
    }

    function renounceRole(bytes32 role, address account) external {
        require(account == msg.sender, "AccessControl: can only renounce roles for self");
        _revoke(role, account);
    }

    function setRelayer(address oldRelayer, address newRelayer) external onlyOwner {
        if (newRelayer == address(0)) revert ERC20RecurringPaymentProxy__ZeroAddress();
        _revoke(RELAYER_ROLE, oldRelayer);
        _grant(RELAYER_ROLE, newRelayer);
    }

    function setFeeProxy(address newProxy) external onlyOwner {
        if (newProxy == address(0)) revert ERC20RecurringPaymentProxy__ZeroAddress();
        erc20FeeProxy = IERC20FeeProxy(newProxy);
    }

    function pause() external onlyOwner whenNotPaused {
        paused = true;
        emit Paused(msg.sender);
    }

    function unpause() external onlyOwner {
        require(paused, "Pausable: not paused");
        paused = false;
        emit Unpaused(msg.sender);
    }

    function renounceOwnership() external onlyOwner {
        _setOwner(address(0));
    }

    function transferOwnership(address newOwner) external onlyOwner {
        if (newOwner == address(0)) revert ERC20RecurringPaymentProxy__ZeroAddress();
        _setOwner(newOwner);
    }

    function _pay(SchedulePermit calldata p, bytes calldata paymentReference) private {
        uint256 payment = uint256(p.amount) + p.feeAmount;
        _callToken(
            p.token,
            abi.encodeWithSignature(
                "transferFrom(address,address,uint256)", p.subscriber, address(this), payment + p.relayerFee
            )
        );
        // Tokens that refuse to change a non-zero allowance need the reset; other tokens are unaffected.
        _callToken(p.token, abi.encodeWithSignature("approve(address,uint256)", address(erc20FeeProxy), 0));
        _callToken(p.token, abi.encodeWithSignature("approve(address,uint256)", address(erc20FeeProxy), payment));
        erc20FeeProxy.transferFromWithReferenceAndFee(
            p.token, p.recipient, p.amount, paymentReference, p.feeAmount, p.feeAddress
        );
        if (p.relayerFee != 0) {
            _callToken(p.token, abi.encodeWithSignature("transfer(address,uint256)", msg.sender, p.relayerFee));
        }
    }

    /// @dev Accepts tokens that return nothing, as the oldest dollar token does.
    function _callToken(address token, bytes memory callData) private {
        (bool success, bytes memory result) = token.call(callData);
        if (!success) {
            assembly ("memory-safe") {
                revert(add(result, 32), mload(result))
            }
        }
        require(token.code.length != 0 && (result.length == 0 || abi.decode(result, (bool))), "token call failed");
    }

    function _digest(SchedulePermit calldata p) private view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(
                DOMAIN_TYPEHASH, keccak256(bytes(NAME)), keccak256(bytes(VERSION)), block.chainid, address(this)
            )
        );
        return keccak256(abi.encodePacked("\x19\x01", domain, keccak256(abi.encode(SCHEDULE_TYPEHASH, p))));
    }

    function _recover(bytes32 digest, bytes calldata signature) private pure returns (address signer) {
        if (signature.length != 65) revert ERC20RecurringPaymentProxy__BadSignature();
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        if (uint256(s) > HALF_ORDER) revert ERC20RecurringPaymentProxy__BadSignature();
        signer = ecrecover(digest, uint8(signature[64]), r, s);
        if (signer == address(0)) revert ERC20RecurringPaymentProxy__BadSignature();
    }

    function _grant(bytes32 role, address account) private {
        if (hasRole[role][account]) return;
        hasRole[role][account] = true;
        emit RoleGranted(role, account, msg.sender);
    }

    function _revoke(bytes32 role, address account) private {
        if (!hasRole[role][account]) return;
        hasRole[role][account] = false;
        emit RoleRevoked(role, account, msg.sender);
    }

    function _setOwner(address newOwner) private {
        emit OwnershipTransferred(owner, newOwner);
        owner = newOwner;
    }
}
