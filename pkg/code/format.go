package code

// The codes of programs and data of different versions, of lost data, and of data that others can change.
const (
	ServiceTooOld     = "SERVICE_TOO_OLD"
	FormatTooNew      = "FORMAT_TOO_NEW"
	FormatTooOld      = "FORMAT_TOO_OLD"
	UnsafePermissions = "UNSAFE_PERMISSIONS"
	TopologyTooNew    = "TOPOLOGY_TOO_NEW"
	TopologyLossy     = "TOPOLOGY_LOSSY"
	BusMoved          = "BUS_MOVED"
	LedgerShort       = "LEDGER_SHORT"
	LedgerGap         = "LEDGER_GAP"
)

var formats = []Entry{
	{
		ServiceTooOld, anyService,
		"The ledger holds facts of a newer version that this service cannot read. The service answers reads, and " +
			"makes no decision that depends on them, until it is upgraded.",
		"garrison versions --check",
	},
	{
		FormatTooNew, by(cli, garrisond, executor, registry, catalog, dispatcher),
		"A newer program wrote the file, in a format that this program does not know. Nothing was written. Use " +
			"that program, or a newer one.",
		"the program that wrote the file; --version of both",
	},
	{
		FormatTooOld, by(cli, garrisond, executor, registry, catalog, dispatcher),
		"This program no longer reads the format of the file. An intermediate version converts it.",
		"an older program, then this one",
	},
	{
		UnsafePermissions, by(garrisond, executor, registry, catalog, dispatcher, access),
		"A data directory, a directory above it, or a file in it belongs to another user than root and the " +
			"program's own, or others can write it. Another user could decide what the program does. Nothing was " +
			"read or written.",
		"the chmod or chown that the refusal names; then look who changed the files",
	},
	{
		TopologyTooNew, by(garrisond),
		"A newer program set up the bus or its keys, and this program must not use them. Nothing was changed.",
		"garrisond --version; the version that set the bus up, or a newer one",
	},
	{
		TopologyLossy, by(garrisond),
		"The streams on the bus differ from this program's in ways that could lose data. Nothing was changed.",
		"garrisond provision --dry-run",
	},
	{
		BusMoved, by(garrisond),
		"The streams on the bus were moved to a cluster, or their move did not end. The bus takes no writes, so that " +
			"there are never two ledgers.",
		"connect to the cluster; or start garrisond with --services none, then run garrisond grow again",
	},
	{
		LedgerShort, anyService,
		"The ledger lacks facts that the service had read: the bus lost them, or a backup was restored. The " +
			"service stops rather than decide without them.",
		"restore the bus from a backup; or start once with --accept-ledger",
	},
	{
		LedgerGap, anyService,
		"Facts are missing in the middle of the ledger: its files are damaged. The service stops rather than " +
			"decide without them.",
		"restore the bus from a backup; or start once with --accept-ledger",
	},
}
