package code

// The codes of joins, logins, identities, and of servers whose history the ledger lost.
const (
	UnknownToken       = "UNKNOWN_TOKEN"
	UsedToken          = "USED_TOKEN"
	ExpiredToken       = "EXPIRED_TOKEN"
	TokenUsedUp        = "TOKEN_USED_UP"
	TokenRevoked       = "TOKEN_REVOKED"
	OutsideRange       = "OUTSIDE_RANGE"
	BadUses            = "BAD_USES"
	BadAddressRange    = "BAD_ADDRESS_RANGE"
	UsedKey            = "USED_KEY"
	OtherKey           = "OTHER_KEY"
	ServerQuarantined  = "SERVER_QUARANTINED"
	ServerRevoked      = "SERVER_REVOKED"
	OtherServer        = "OTHER_SERVER"
	IdentityUnreadable = "IDENTITY_UNREADABLE"
	LoginDenied        = "LOGIN_DENIED"
	LoginExpired       = "LOGIN_EXPIRED"
	LoginRevoked       = "LOGIN_REVOKED"
	LoginUnknown       = "LOGIN_UNKNOWN"
	ClockSkew          = "CLOCK_SKEW"
	BusStarting        = "BUS_STARTING"
	NotProvisioned     = "NOT_PROVISIONED"
	LedgerBehind       = "LEDGER_BEHIND"
	PlaceUnproven      = "PLACE_UNPROVEN"
	ImpossibleDocument = "IMPOSSIBLE_DOCUMENT"
	NotAhead           = "NOT_AHEAD"
	StaleLoss          = "STALE_LOSS"
	DuplicateIdentity  = "DUPLICATE_IDENTITY"
	NotEnrolled        = "NOT_ENROLLED"
	StillRuns          = "STILL_RUNS"
	OtherCell          = "OTHER_CELL"
	ServerRemoved      = "SERVER_REMOVED"
	BusNotTrusted      = "BUS_NOT_TRUSTED"
	PlainRefused       = "PLAIN_REFUSED"
	LedgerBudget       = "LEDGER_BUDGET"
	LobbyClosed        = "LOBBY_CLOSED"
	LobbyRejected      = "LOBBY_REJECTED"
	NotWaiting         = "NOT_WAITING"
	BadKnock           = "BAD_KNOCK"
	BadLabelRule       = "BAD_LABEL_RULE"
	UnknownLabelRule   = "UNKNOWN_LABEL_RULE"
	LabelByRule        = "LABEL_BY_RULE"
)

var identities = []Entry{
	{
		UnknownToken, by(registry),
		"No token has this name, or its secret is wrong; or it names an unknown server.",
		"garrison server enroll NAME; garrison token list",
	},
	{
		TokenUsedUp, by(registry),
		"As many servers joined with the pooled token as it allows. Those that joined stay.",
		"garrison token create NAME --uses N",
	},
	{
		TokenRevoked, by(registry),
		"The pooled token was revoked. Servers that joined with it before stay.",
		"garrison token show NAME; garrison token create OTHER --uses N",
	},
	{
		OutsideRange, by(registry),
		"The pooled token may be used from some addresses only, and the bus saw another one, or none. Behind a " +
			"router that translates addresses the bus sees the address of the router.",
		"garrison token show NAME; garrison token create OTHER --from-address PREFIX",
	},
	{
		BadUses, by(registry),
		"A pooled token must be for 1 to 100,000 servers.",
		"garrison token create NAME --uses N",
	},
	{
		BadAddressRange, by(registry),
		"The address range is no prefix, has bits beyond its length, or there are more than 32 of them.",
		"garrison token create NAME --from-address 10.0.0.0/8",
	},
	{
		UsedToken, by(registry),
		"The token was already used with another key: by this machine before it lost its key, or by another one. " +
			"Void that key and create a new token; the server keeps its id and its agents. Five minutes after its " +
			"use the bus rejects the token itself, as LOGIN_REFUSED.",
		"garrison server revoke NAME, then garrison server enroll NAME",
	},
	{
		ExpiredToken, by(registry, executor),
		"The token has expired. Make another one; the invitation of a server that never joined is withdrawn first, " +
			"with garrison server forget.",
		"garrison server enroll NAME",
	},
	{
		UsedKey, by(registry),
		"The server wants to enrol with a key that it had before, or that another server has. Its executor makes a " +
			"new one when it joins again.",
		"executor join --token-file FILE, there",
	},
	{
		OtherKey, by(registry),
		"The server wants to renew credentials of another key than the one with which it enrolled. Void that one and " +
			"enroll the server again.",
		"garrison server revoke NAME, then garrison server enroll NAME",
	},
	{
		ServerQuarantined, by(registry),
		"The server is quarantined: the bus refuses it, its reports do not count, and nothing new is sent to it. Its " +
			"agents keep running.",
		"garrison server release SERVER; or garrison server revoke SERVER",
	},
	{
		ServerRevoked, by(registry),
		"The credentials of the server are void, and the bus refuses it. Its agents keep running. It stays in the " +
			"inventory until it is enrolled again with a new token, or given up.",
		"garrison server enroll NAME; or garrison server decommission SERVER --lost",
	},
	{
		OtherServer, by(executor),
		"The directory belongs to another server. Join in another directory, or decommission that server first.",
		"executor join --root OTHER",
	},
	{
		IdentityUnreadable, by(executor),
		"The executor cannot read its identity or key. Its agents keep running, and nothing is removed. Its reason " +
			"names the file. A copy of the file is enough; without one the server joins again with another key, as " +
			"soon as identity.json and key.seed are moved away. The executor goes on by itself then.",
		"put back the file that the reason names; or garrison server revoke NAME, garrison server enroll NAME, move " +
			"executor/identity.json and executor/key.seed away there, and executor join --token-file FILE",
	},
	{
		LoginDenied, by(executor),
		"The bus rejects the credentials of the server without a reason: a wrong key, an unknown account or " +
			"server, or one that is quarantined, revoked, or decommissioned and back from a copy of its disk. Agents " +
			"keep running, and the executor retries.",
		"garrison server show SERVER; when quarantined: garrison server release SERVER; revoked: garrison server " +
			"enroll with its name, and join with that token; dead: garrison server tombstone SERVER > FILE, then " +
			"there executor uninstall --tombstone FILE, and join with a new token",
	},
	{
		LoginExpired, by(registry, executor),
		"The credentials of the server or of its account have expired: the server was disconnected for longer than " +
			"they are valid. Agents keep running, and the executor retries.",
		"garrison server enroll NAME, and there executor join --token-file FILE",
	},
	{
		LoginRevoked, by(executor),
		"The server is quarantined, or its credentials are revoked. Agents keep running, and the executor retries.",
		"garrison server show SERVER; garrison server release SERVER, or garrison server enroll NAME",
	},
	{
		LoginUnknown, by(executor),
		"The bus rejects the server with an error that its executor does not know. Agents keep running, and the " +
			"executor retries.",
		"executor status there; a newer executor",
	},
	{
		ClockSkew, by(registry, executor),
		"The server's clock differs: by its last beats from the registry's by more than 30 seconds, or its " +
			"credentials are not valid yet by it. Set the clock; agents keep running meanwhile.",
		"set the clock; date -u, there and on the machine of the bus",
	},
	{
		BusStarting, by(executor),
		"The bus is up but does not accept logins yet. Agents keep running, and the executor retries.",
		"executor status there, in a minute",
	},
	{
		NotProvisioned, by(executor),
		"The bus accepts the login, but its streams do not exist yet. Start garrisond, or provision the bus.",
		"garrisond",
	},
	{
		LedgerBehind, by(registry, executor),
		"The server has applied a document that the ledger does not have: the ledger lost part of the server's " +
			"history, for example by the restore of a backup. The server keeps and heals its agents, takes no " +
			"document and is sent nothing, until the loss is accepted.",
		"garrison restore status, then garrison restore accept --on SERVER",
	},
	{
		PlaceUnproven, by(registry, executor),
		"The server was disconnected for so long that its document does not prove that it continues what the " +
			"server applied last. The registry compares it with the ledger; a few seconds later the server takes the " +
			"document, or is found to be ahead.",
		"garrison server show SERVER, in a minute",
	},
	{
		ImpossibleDocument, by(executor, dispatcher),
		"The server's document has a generation or an epoch that no ledger can have reached: another program than " +
			"the task-dispatcher wrote it, or it is damaged. The server keeps its agents and does not follow it. The " +
			"task-dispatcher writes the true document over it.",
		"garrison server show SERVER, in a minute; then find out who holds the task-dispatcher's key",
	},
	{
		NotAhead, by(registry),
		"The server is not ahead of the ledger, so there is no loss to accept. Nothing was changed.",
		"garrison restore status",
	},
	{
		StaleLoss, by(registry),
		"The loss to accept differs from the one that was shown. Nothing was changed.",
		"garrison restore status, then garrison restore accept --on SERVER",
	},
	{
		DuplicateIdentity, by(cli, registry),
		"Two executors report as this server: its machine or its root was copied after the join. The server is " +
			"sent nothing new meanwhile. Void what both log in with, and let the machine to keep join again: its " +
			"agents stay. For a server of its own, stop executor and agents of the copy, delete its root, and let it " +
			"join.",
		"garrison server show SERVER, which names both; garrison server replace SERVER --force --token-file FILE, " +
			"then on the machine to keep: executor join --token-file FILE",
	},
	{
		NotEnrolled, by(registry, cli, executor),
		"A server reports with its own credentials, but the ledger knows it only as invited: its enrolment was " +
			"lost, for example by the restore of a backup.",
		"garrison restore status",
	},
	{
		StillRuns, by(registry, cli, executor),
		"The server is dead, but its executor still reports. The registry refuses its beats and reports, and tells " +
			"the executor.",
		"executor status there; garrison server show SERVER",
	},
	{
		ServerRemoved, by(registry, executor),
		"The server was removed: the registry forgot it, or its death is proven and the bus shuts it out. Agents " +
			"that are left keep running. It never comes back under this identity.",
		"executor uninstall --dry-run there; with its tombstone: executor uninstall --tombstone FILE; to enroll the " +
			"machine again: garrison server enroll NAME, and there executor join --root ANOTHER-DIR --token-file FILE",
	},
	{
		OtherCell, by(registry, executor),
		"A server reports in a cell that it does not belong to. These reports are ignored.",
		"garrison server show SERVER; executor status there",
	},
	{
		BusNotTrusted, by(cli, executor, registry, catalog, dispatcher, garrisond),
		"The other side did not prove to be the bus: its certificate is not signed by a CA that this client knows, " +
			"or is for other names or another time, or it offers no TLS. Nothing was sent to it. Either the " +
			"address is wrong, another machine is in between, a clock is wrong, or the bus has a new CA.",
		"check the address and the clock; for a server: garrison server revoke NAME, garrison server enroll NAME, " +
			"and there executor join --token-file FILE; for a person: a new copy of the context",
	},
	{
		PlainRefused, by(cli, executor, registry, catalog, dispatcher, garrisond),
		"The bus is on another host and there is no CA to know it by. Without TLS, anybody on the way can read and " +
			"change everything.",
		"a token or context of a bus with TLS; or --allow-plain, on a network that you trust",
	},
	{
		LedgerBudget, by(registry),
		"The reports and beats of the server wrote more into the ledger in a day than a server may. The registry " +
			"quarantined it. Find out what it repeats before it is released.",
		"garrison events --id SERVER; then garrison server release SERVER",
	},
	{
		LobbyClosed, by(registry),
		"The control plane takes no machines without a token: its lobby is not open.",
		"garrison server enroll NAME, or start garrisond with --lobby",
	},
	{
		LobbyRejected, by(registry),
		"An operator rejected the key of this machine, or a server had it before. Nothing was changed on the machine.",
		"ask who operates the control plane; a machine that was rejected may ask again after a day, or with another " +
			"key",
	},
	{
		NotWaiting, by(registry),
		"No machine in the lobby has this fingerprint. A machine that waits asks every few seconds; it is forgotten " +
			"when it stops, and after a restart of the registry until it asks again.",
		"garrison lobby list; executor status on the machine",
	},
	{
		BadKnock, by(registry),
		"A request of a machine without a token is malformed, or its key did not sign it.",
		"executor status on the machine; garrison versions",
	},
	{
		BadLabelRule, by(registry),
		"A label rule has no condition or no label, too many of them, or a condition about a label or presence, " +
			"on which no rule may depend; or there are too many rules.",
		"garrison label-rule set NAME --when os=linux --label LABEL=VALUE",
	},
	{
		UnknownLabelRule, by(registry),
		"No label rule has this name.",
		"garrison label-rule list",
	},
	{
		LabelByRule, by(registry),
		"The server has the label by a rule, so it cannot be removed from the server alone. A value of its own wins " +
			"over that of the rule.",
		"garrison server label SERVER LABEL=VALUE, or garrison label-rule list",
	},
}
