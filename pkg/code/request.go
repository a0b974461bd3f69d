package code

// The codes of any request: the connection, the login, the request itself.
const (
	BusAway        = "BUS_AWAY"
	LoginRefused   = "LOGIN_REFUSED"
	LoginOver      = "CREDENTIALS_EXPIRED"
	Denied         = "DENIED"
	NoAnswer       = "NO_ANSWER"
	NoContext      = "NO_CONTEXT"
	UnknownContext = "UNKNOWN_CONTEXT"
	DamagedContext = "DAMAGED_CONTEXT"
	UnknownCode    = "UNKNOWN_CODE"
	NotFound       = "NOT_FOUND"
	Conflict       = "CONFLICT"
	Unavailable    = "UNAVAILABLE"
	Invalid        = "INVALID"
	Refused        = "REFUSED"
	Internal       = "INTERNAL"
	Malformed      = "MALFORMED"
	UnknownMethod  = "UNKNOWN_METHOD"
	UnknownField   = "UNKNOWN_FIELD"
	BadCursor      = "BAD_CURSOR"
	BadPage        = "BAD_PAGE"
	BadFilter      = "BAD_FILTER"
	Busy           = "BUSY"
	BadWait        = "BAD_WAIT"
	BadReason      = "BAD_REASON"
	BadDuration    = "BAD_DURATION"
	ClockDiffers   = "CLOCK_DIFFERS"
	AnswerTooLarge = "ANSWER_TOO_LARGE"
)

var requests = []Entry{
	{
		BusAway, by(cli, executor),
		"The bus cannot be reached at the address of the context, or of the server's join. Nothing was requested. " +
			"Check that the bus runs and that the address is right. Agents of a server keep running, and its " +
			"executor retries.",
		"garrison context list; for a server: executor status there",
	},
	{
		LoginRefused, by(cli, executor),
		"The bus rejects the credentials of the context or the token: they belong to another Garrison, or are " +
			"revoked. A token is rejected also five minutes after it was used up.",
		"garrison context list; for a token: garrison server show NAME, garrison server enroll NAME",
	},
	{
		LoginOver, by(cli),
		"The credentials of the context have expired. Each command renews them when a third of their time is left, " +
			"so none ran since then, or it could not write the file of the context. An admin makes new ones; " +
			"those of the first operator are made by a start of garrisond.",
		"garrison user create NAME --role ROLE, by an admin",
	},
	{
		Denied, by(cli, registry, catalog, dispatcher),
		"The caller may not do this. Viewers read, operators change, admins invite and forget servers.",
		"garrison context list",
	},
	{
		NoAnswer, by(cli),
		"No instance of the service answered within 30 s, in which the request was repeated with the same id; or the " +
			"answer to a change was lost, and the message says what is known of the change.",
		"garrison versions --server",
	},
	{
		NoContext, by(cli),
		"No context is selected, so the address of the bus is unknown.",
		"garrison context add NAME FILE",
	},
	{
		UnknownContext, by(cli),
		"No saved context has that name.",
		"garrison context list",
	},
	{
		DamagedContext, by(cli),
		"The file of the context cannot be read, or lacks the address or the user. Copy it again from where it was " +
			"made.",
		"garrison context add NAME FILE",
	},
	{
		UnknownCode, by(cli),
		"No refusal has that code.",
		"garrison explain",
	},
	{
		NotFound, anyService,
		"What the request names does not exist; the message names it.",
		"the list of that noun, such as garrison server list",
	},
	{
		Conflict, anyService,
		"Concurrent update: the record changed between read and write. Nothing was changed.",
		"the same command again",
	},
	{
		Unavailable, anyService,
		"The service cannot do it now. A retry may work.",
		"the same command again; garrison versions --server",
	},
	{
		Invalid, anyService,
		"The request is not valid. A retry does not help.",
		"the command with --help",
	},
	{
		Refused, by(cli),
		"The service refused without a code; the message says why.",
		"the command with --help",
	},
	{
		Internal, by(registry, catalog, dispatcher, executor),
		"An unforeseen failure; the message says where. A change that had begun on a server was rolled back.",
		"garrison task show TASK; the log of the process",
	},
	{
		Malformed, anyService,
		"The request or intent cannot be read, lacks a required part, or contradicts its subject.",
		"garrison versions: client and services of one version",
	},
	{
		UnknownMethod, anyService,
		"The service has no such method: its version differs from the caller's.",
		"garrison versions --server",
	},
	{
		UnknownField, anyService,
		"The request holds a field or value that the service does not know, because the caller is newer. The " +
			"service refuses it rather than do part of it.",
		"garrison versions: client and services of one version",
	},
	{
		BadCursor, anyService,
		"The cursor does not come from an earlier page of this list.",
		"the list without --cursor",
	},
	{
		BadPage, by(registry, dispatcher),
		"The page is larger than the service allows.",
		"the list with a smaller --limit",
	},
	{
		BadFilter, by(registry, dispatcher),
		"The filter of a list, a count or a read of the ledger is not valid: an unknown noun, kind or field, more " +
			"fields than are counted by, or a key with other characters than letters, digits, dashes, underscores " +
			"and dots.",
		"garrison events --noun NOUN --id ID",
	},
	{
		Busy, append(by(executor), anyService...),
		"The caller has as many requests under way, or has read as much within the last seconds, as one caller may. " +
			"The refusal names the time after which the same may be asked again; programs wait that long and retry.",
		"the same command again, with fewer of them at a time",
	},
	{
		BadWait, by(registry),
		"The requested wait is longer than the service allows.",
		"the same request with a shorter wait",
	},
	{
		BadReason, by(registry, catalog, access),
		"The reason is too long, or cannot be printed on one line.",
		"a shorter -m TEXT",
	},
	{
		BadDuration, by(registry, access),
		"The duration is out of bounds; a token lasts thirty days at most, the credentials of a user 400 days.",
		"a duration above zero, such as 1h",
	},
	{
		ClockDiffers, by(dispatcher),
		"The clock of a dispatcher or of a server differs from the bus by more than 30 s. Deadlines follow the " +
			"clock of the bus, so nothing ends too early; times in the ledger are those of their writers.",
		"timedatectl on the machine that the log names; its time service",
	},
	{
		AnswerTooLarge, anyService,
		"The answer is larger than a message of the bus may be. A question changed nothing; a change that was " +
			"requested is made.",
		"a smaller part: --limit 10, or one thing by its id",
	},
}
