package code

// The codes of the registry's decisions on intents, and of plans.
const (
	EmptySelector     = "EMPTY_SELECTOR"
	BadSelector       = "BAD_SELECTOR"
	NoServers         = "NO_SERVERS"
	UnknownServer     = "UNKNOWN_SERVER"
	AmbiguousServer   = "AMBIGUOUS_SERVER"
	UnknownAgent      = "UNKNOWN_AGENT"
	NoMatch           = "NO_MATCH"
	NotActive         = "NOT_ACTIVE"
	WrongPlatform     = "WRONG_PLATFORM"
	WrongKind         = "WRONG_KIND"
	UnsupportedKind   = "UNSUPPORTED_KIND"
	MissingDependency = "MISSING_DEPENDENCY"
	AlreadyInstalled  = "ALREADY_INSTALLED"
	NoInstances       = "NO_INSTANCES"
	ServerOnline      = "SERVER_ONLINE"
	NotAlive          = "NOT_ALIVE"
	UnknownIntent     = "UNKNOWN_INTENT"
	AmbiguousIntent   = "AMBIGUOUS_INTENT"
	TooManyServers    = "TOO_MANY_SERVERS"
	TooManyInstances  = "TOO_MANY_INSTANCES"
	NothingLeft       = "NOTHING_LEFT"
	LeftOut           = "LEFT_OUT"
	PlanStale         = "PLAN_STALE"
	NoUpgradePath     = "NO_UPGRADE_PATH"
	RequirementUnmet  = "REQUIREMENT_UNMET"
	NewerRuns         = "NEWER_RUNS"
	FailedBefore      = "FAILED_BEFORE"
	NotPlaced         = "NOT_PLACED"
	ChangedSince      = "CHANGED_SINCE"
	AskedLater        = "ASKED_LATER"
	NotUndoable       = "NOT_UNDOABLE"
	NotAccepted       = "NOT_ACCEPTED"
	NotWithdrawable   = "NOT_WITHDRAWABLE"
	NeededBy          = "NEEDED_BY"

	ServerReinstalling = "SERVER_REINSTALLING"
)

var intents = []Entry{
	{
		EmptySelector, by(registry),
		"The request selects no server. To select every server, pass --on all.",
		"--on all, or --on SERVER",
	},
	{
		BadSelector, by(registry),
		"A condition of the selector cannot be evaluated: the field, the value or the comparison is missing or " +
			"unknown.",
		"--on 'NAME=VALUE', --on 'NAME in (VALUE,VALUE)', --on 'memory>=16GiB'",
	},
	{
		NoServers, by(registry, cli),
		"The selector matches no live server.",
		"garrison server list",
	},
	{
		UnknownServer, by(registry, dispatcher, executor),
		"No server has that id, unique prefix or name. Of an executor: the registry does not manage its server, and " +
			"refuses its beats and reports.",
		"garrison server list",
	},
	{
		AmbiguousServer, by(registry),
		"The prefix matches the ids of several servers. Use a longer prefix, or the name.",
		"garrison server list -o wide",
	},
	{
		UnknownAgent, by(registry, cli),
		"No agent has that name. An agent is created before it is installed.",
		"garrison agent list",
	},
	{
		NoMatch, by(registry, catalog),
		"No image matches the agent, the version or channel, and the platform of every target.",
		"garrison image list AGENT",
	},
	{
		NotActive, by(registry, catalog),
		"The image is not active. Only active images are installed.",
		"garrison image activate IMAGE",
	},
	{
		WrongPlatform, by(registry, executor),
		"The image is built for another operating system or architecture than the server's.",
		"garrison image list AGENT; garrison server show SERVER",
	},
	{
		WrongKind, by(registry),
		"The image declares another kind than the agent has.",
		"garrison agent show AGENT; garrison image show IMAGE",
	},
	{
		UnsupportedKind, by(cli, registry, executor),
		"Agents of that kind cannot be installed: Garrison only tracks those of kind external, and the server's " +
			"executor may not know a newer kind. Nothing was changed.",
		"garrison agent show AGENT; garrison server list -o wide",
	},
	{
		MissingDependency, by(registry, executor),
		"The server lacks an agent that this one depends on.",
		"garrison agent show AGENT, then garrison install of its dependencies",
	},
	{
		AlreadyInstalled, by(registry, executor),
		"The agent is wanted on the targets already, at another image; it may not run there, as after an install " +
			"that was undone. Change it with garrison up.",
		"garrison up AGENT --on SELECTOR",
	},
	{
		NoInstances, by(registry, cli),
		"None of the targets has the agent. There is nothing to change.",
		"garrison instance list AGENT",
	},
	{
		ServerOnline, by(registry),
		"The server is online, so its machine is neither lost nor gone. Decommission it without --lost, or replace " +
			"its machine once it is offline; --force does it all the same and voids its credentials.",
		"garrison server decommission SERVER [--lost --force], garrison server replace SERVER --force",
	},
	{
		NotAlive, by(registry),
		"The server is invited, dying or dead. Only live servers take changes.",
		"garrison server list --life alive",
	},
	{
		UnknownIntent, by(registry),
		"The registry does not know the intent. The message says that the intent is not stored, or that it may be " +
			"one of those that wait for their decision.",
		"garrison events --noun intent --limit 20",
	},
	{
		AmbiguousIntent, by(registry),
		"The prefix matches the ids of several intents, which the message names. Use a longer prefix: ids are in " +
			"order of time, and those of one minute begin alike.",
		"garrison intent list",
	},
	{
		TooManyServers, by(registry),
		"The intent changes more servers than one intent may. Select fewer at a time.",
		"--on with a label or an environment",
	},
	{
		TooManyInstances, by(registry),
		"The change affects more instances than one step may.",
		"garrison remove AGENT --on SERVER, for some agents first",
	},
	{
		NothingLeft, by(registry),
		"Every selected server was left out, for different reasons; the message counts them.",
		"the same with --dry-run, which lists every server with its reason",
	},
	{
		LeftOut, by(registry),
		"The intent is strict, and some servers would be left out. Nothing was changed.",
		"the same without --strict, or with --not SERVER",
	},
	{
		NoUpgradePath, by(registry),
		"The image cannot replace the version that runs there at once: its upgrades_from does not name that version, " +
			"or the floor of that version is higher. The message names the nearest way; a rollout goes it, step by " +
			"step.",
		"garrison rollout start AGENT@VERSION --on SELECTOR; garrison image show IMAGE",
	},
	{
		RequirementUnmet, by(registry, executor),
		"The image requires a version of another agent that the server does not have, or an agent that is there " +
			"requires another version of this one. Nothing was changed.",
		"garrison rollout start AGENT OTHER --on SELECTOR, which changes both in the right order",
	},
	{
		PlanStale, by(registry),
		"The plan is out of date: servers, images or metadata have changed since. Nothing was changed.",
		"the same command again, which plans anew",
	},
	{
		NewerRuns, by(registry),
		"The server runs a higher version than the channel's newest. A downgrade needs an explicit version.",
		"garrison up AGENT@VERSION --on SELECTOR",
	},
	{
		FailedBefore, by(registry),
		"The version has failed on this server before. It is tried again only for a person who names it and says why.",
		"garrison up AGENT@VERSION --on SELECTOR -m WHY",
	},
	{
		NotPlaced, by(registry),
		"The wanted version never reached the server and no other version runs there. There is nothing to " +
			"configure.",
		"garrison up AGENT@VERSION --on SELECTOR -m WHY, where it lacks a value after garrison agent update AGENT " +
			"--set NAME=VALUE; or garrison remove AGENT --on SELECTOR",
	},
	{
		ChangedSince, by(registry),
		"Another intent has changed the instance since, so this intent is not undone there.",
		"garrison instance show SERVER AGENT",
	},
	{
		AskedLater, by(registry),
		"A person, or a rollout that was planned later, asked for something else of the agent since the rollout was " +
			"planned, so the rollout leaves the server as it is.",
		"garrison instance show SERVER AGENT; garrison rollout start, to change it after all",
	},
	{
		NotUndoable, by(registry),
		"The intent changed no instance, or the previous state is unknown; or another rollout undoes the rollout " +
			"already.",
		"garrison intent show INTENT",
	},
	{
		NotAccepted, by(registry),
		"The intent changes nothing. There is nothing to withdraw.",
		"garrison intent show INTENT",
	},
	{
		NotWithdrawable, by(registry),
		"A decommission or a reinstall takes effect when it is accepted and cannot be withdrawn.",
		"garrison intent show INTENT",
	},
	{
		NeededBy, by(registry),
		"Other agents on the same server depend on this agent, so it cannot be removed. The message names them.",
		"garrison remove of those first; both can be requested in a row",
	},
	{
		ServerReinstalling, by(registry, dispatcher),
		"The server is being reinstalled. No agent comes to it until it is empty; then the defaults of its " +
			"environment install theirs.",
		"garrison explain SERVER; then the same again",
	},
}
