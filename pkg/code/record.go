package code

// The codes of the registry's records: servers, agents, applications, environments.
const (
	UnknownEnvironment = "UNKNOWN_ENVIRONMENT"
	UnknownApplication = "UNKNOWN_APPLICATION"
	Exists             = "EXISTS"
	InUse              = "IN_USE"
	RevisionChanged    = "REVISION_CHANGED"
	NotDead            = "NOT_DEAD"
	BadCleanUp         = "BAD_CLEAN_UP"
	KindFixed          = "KIND_FIXED"
	DependencyCycle    = "DEPENDENCY_CYCLE"
	BadName            = "BAD_NAME"
	BadLabel           = "BAD_LABEL"
	BadMetadata        = "BAD_METADATA"
	BadSchema          = "BAD_SCHEMA"
	SchemaMismatch     = "SCHEMA_MISMATCH"
	SecretInClear      = "SECRET_IN_CLEAR"
	NoSecretKey        = "NO_SECRET_KEY"
	SecretMissing      = "SECRET_MISSING"
	BadDependency      = "BAD_DEPENDENCY"
	BadDescription     = "BAD_DESCRIPTION"
	NotReporter        = "NOT_REPORTER"
	BadReport          = "BAD_REPORT"
	BadWanted          = "BAD_WANTED"
	BadKind            = "BAD_KIND"
	ServerFull         = "SERVER_FULL"
	Leaked             = "LEAKED"
	UnknownDefault     = "UNKNOWN_DEFAULT"
	BadReach           = "BAD_REACH"
	UnmanagedAgent     = "UNMANAGED_AGENT"
	TooManyDefaults    = "TOO_MANY_DEFAULTS"
	TooWide            = "TOO_WIDE"
	BadOwner           = "BAD_OWNER"
	BadDeclaration     = "BAD_DECLARATION"
	FieldOwned         = "FIELD_OWNED"
	FieldFixed         = "FIELD_FIXED"
	BadDriftPolicy     = "BAD_DRIFT_POLICY"
	DriftHeld          = "DRIFT_HELD"
	BadWindow          = "BAD_WINDOW"
	BadKeep            = "BAD_KEEP"
	Frozen             = "FROZEN"
)

var records = []Entry{
	{
		BadDriftPolicy, by(registry),
		"The drift policy of the environment is unknown, or its brake is no percentage from 1 to 100.",
		"garrison env update ENVIRONMENT --drift report|heal|hold --drift-brake PERCENT",
	},
	{
		BadWindow, by(registry),
		"The windows or freezes of an environment are not valid: days are 1 to 7, times have a time zone by its IANA " +
			"name, and a freeze ends after it begins; or its limit for critical sections is not 1 s to 7 days.",
		"garrison env window --help; garrison env freeze --help; " +
			"garrison env update ENVIRONMENT --busy-limit DURATION",
	},
	{
		BadKeep, by(registry),
		"A keep budget of an environment is not valid: it counts by env or by label.NAME, once each, with a number " +
			"of servers or a percentage from 0 to 100.",
		"garrison env keep --help",
	},
	{
		Frozen, by(registry),
		"The environment of the server is frozen or outside its windows. Nothing was changed. A rollout waits until " +
			"it opens.",
		"garrison env show ENVIRONMENT; garrison rollout start AGENT --on SELECTOR; --override",
	},
	{
		DriftHeld, by(registry),
		"The agent drifted on a server whose environment holds such agents: it accepts no change other than its " +
			"repair or its removal.",
		"garrison check --fix --on SERVER, or garrison env update ENVIRONMENT --drift report",
	},
	{
		UnknownDefault, by(registry),
		"The environment has no default for that agent.",
		"garrison env default list ENVIRONMENT",
	},
	{
		BadReach, by(registry),
		"A default must say which servers it installs on: new ones only, or all.",
		"garrison env default set ENVIRONMENT AGENT --reach new, or --reach all",
	},
	{
		TooManyDefaults, by(registry),
		"The environment has as many defaults as one environment may.",
		"garrison env default unset ENVIRONMENT AGENT",
	},
	{
		TooWide, by(registry, cli),
		"The change would reach more than 100 servers at once, without waves: an install, upgrade, configure, " +
			"remove, undo, decommission, reinstall, quarantine or revocation, a rollout in one wave, a default of an " +
			"environment, also one that waited, a move of servers to an environment with defaults, or a drift policy " +
			"that heals.",
		"garrison rollout start AGENT --on SELECTOR --canaries 3 --waves 10%,50%, with --then-default ENVIRONMENT " +
			"for a default, garrison rollout undo INTENT for an undo, or garrison rollout start --repair --all for " +
			"drift; or the same command with --at-once",
	},
	{
		UnmanagedAgent, by(registry),
		"The server has the agent without an instance, so no default of its environment installs it.",
		"garrison explain SERVER; garrison install AGENT --on SERVER takes it in",
	},
	{
		BadOwner, by(registry),
		"The record of what garrison apply declares is not valid: an owner without a name, or too many owners or " +
			"fields.",
		"fewer fields in the file, or one file set for fewer owners",
	},
	{
		BadDeclaration, by(cli),
		"A file is not valid: it is no YAML, JSON or INI of the expected form, a key is unknown or is there twice, a " +
			"value has the wrong form, or it is too large or too deep.",
		"garrison apply --help; garrison import --help; garrison export shows the form",
	},
	{
		FieldOwned, by(cli),
		"Another owner declares the field with another value, so that the two would overwrite each other.",
		"the same value in both files, the field in one file only, or garrison apply --force",
	},
	{
		FieldFixed, by(cli),
		"The field is set when the object is created, and cannot be changed.",
		"the value that the object has, or another name",
	},
	{
		UnknownEnvironment, by(registry, cli),
		"No environment has that name.",
		"garrison env list",
	},
	{
		UnknownApplication, by(registry, cli),
		"No application has that name.",
		"garrison app list",
	},
	{
		Exists, by(registry, catalog, access, cli),
		"The name is taken by another record of the same noun.",
		"another name, or the command update",
	},
	{
		BadSchema, by(registry),
		"The JSON schema of the agent is not valid, is too large, or refers to something outside of itself.",
		"garrison agent update AGENT --schema FILE, with a schema of 16 KiB at most whose references begin with #/",
	},
	{
		SchemaMismatch, by(registry),
		"The merged metadata breaks the JSON schema of the agent. The message names the value, the problem and the " +
			"level that sets the value.",
		"garrison agent show AGENT for the schema, and update the level that the message names",
	},
	{
		RevisionChanged, by(registry, catalog),
		"The record, an instance's own values, or the state of an image changed since the revision or time that the " +
			"request is based on. The message names the last change.",
		"look at it again with garrison agent|app|env|image show NAME or garrison instance show SERVER AGENT, and " +
			"repeat the change with its revision",
	},
	{
		InUse, by(registry, cli),
		"Other records still refer to this one. Change or remove those first.",
		"garrison instance list; garrison agent list; garrison server list --env NAME",
	},
	{
		NotDead, by(registry, cli),
		"Only a dead server or an unused invitation can be forgotten; only a dead server can be cleaned.",
		"garrison server decommission SERVER",
	},
	{
		BadCleanUp, by(registry, cli),
		"The receipt of a clean-up is invalid: it names another server, was a dry run, or has no outcome.",
		"garrison server clean SERVER --receipt FILE, with what executor uninstall --tombstone FILE -o json " +
			"printed on that machine",
	},
	{
		KindFixed, by(registry),
		"The kind of an agent cannot be changed. Create another agent.",
		"garrison agent create with another name",
	},
	{
		DependencyCycle, by(registry),
		"The dependencies of the agents form a cycle.",
		"garrison agent update AGENT --needs",
	},
	{
		BadName, by(registry, catalog, access, executor, cli),
		"A name has 1 to 63 lower-case letters, digits, inner dashes and underscores, and a server's name 1 to 253 " +
			"letters, digits, inner dashes, underscores and dots; a name within an image must be a valid " +
			"file name. A user cannot have the name of a part of Garrison.",
		"the name in lower-case letters, digits, inner dashes and underscores",
	},
	{
		BadLabel, by(registry),
		"The name or value of a label is too long or has characters that are not allowed.",
		"garrison server label --help",
	},
	{
		BadMetadata, by(registry, executor, cli),
		"Metadata is not valid: a name is not an identifier, a value is too long, or there are too many. The " +
			"merged metadata of one agent has 32 KiB at most.",
		"garrison instance show SERVER AGENT; garrison configure AGENT --unset NAME --on SERVER",
	},
	{
		SecretInClear, by(registry),
		"A value is a secret, and the same name would get a value in clear that everybody who may read sees, for " +
			"ever. Nothing was changed.",
		"--set-secret NAME=@FILE; to make it no secret: --unset NAME first",
	},
	{
		NoSecretKey, by(registry),
		"The registry runs without the key of secrets, so that it cannot seal any.",
		"registry --secrets FILE and task-dispatcher --secrets FILE, with the file secrets.key of the authority",
	},
	{
		SecretMissing, by(executor),
		"The document has a secret only in its sealed form: the task-dispatcher has no key of secrets, or another " +
			"one. The agent stays as it was.",
		"task-dispatcher --secrets FILE; when the key was lost, set the secret again",
	},
	{
		BadDependency, by(registry),
		"The agent has more dependencies than an agent may have.",
		"garrison agent update AGENT --needs",
	},
	{
		BadDescription, by(registry, catalog),
		"The description is too long or has characters that cannot be printed.",
		"a shorter --description",
	},
	{
		NotReporter, by(registry),
		"Only the reporter that an agent of kind external names reports its instances.",
		"garrison agent show AGENT; garrison agent update AGENT --reporter USER",
	},
	{
		BadReport, by(registry, cli),
		"An instance in a report breaks a limit or cannot be placed, or the report lists too many. The other " +
			"instances of the report are recorded.",
		"garrison external report --help lists the fields and their limits",
	},
	{
		BadWanted, by(registry),
		"The versions that an agent of kind external wants are of something else than all instances, an environment " +
			"or an instance, have no text, or are too many.",
		"garrison external want AGENT VERSION --env ENVIRONMENT",
	},
	{
		BadKind, by(registry),
		"The agent kind is unknown.",
		"garrison agent create --help",
	},
	{
		ServerFull, by(dispatcher),
		"The wanted state of the server does not fit into its document: too many agents, too much metadata, or " +
			"both. Nothing was changed there.",
		"garrison instance list --server SERVER, and less metadata: garrison app, agent or env update --unset NAME",
	},
	{
		Leaked, by(registry),
		"Parts of Garrison may still be on the machine of this dead server; the message names them.",
		"garrison server clean SERVER; when the machine is gone: garrison server forget SERVER --leak",
	},
}
