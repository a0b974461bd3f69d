package ledger

import (
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// Noun is what a fact is about. Every noun has one writer.
type Noun string

// The nouns.
const (
	Application Noun = "application"
	Environment Noun = "environment"
	Agent       Noun = "agent"
	Server      Noun = "server"
	Instance    Noun = "instance"
	External    Noun = "external"
	Intent      Noun = "intent"
	Image       Noun = "image"
	Channel     Noun = "channel"
	Task        Noun = "task"
	User        Noun = "user"
	Token       Noun = "token"
	LabelRule   Noun = "labelrule"
	Lobby       Noun = "lobby"
	Rollout     Noun = "rollout"
	Hold        Noun = "hold"
	Block       Noun = "block"
	Source      Noun = "source"
)

// The writers.
const (
	Registry   = "registry"
	Catalog    = "image-catalog"
	Dispatcher = "task-dispatcher"
	Access     = "access"
)

// Writer returns the service that alone writes facts about a noun.
func (n Noun) Writer() string {
	switch n {
	case Image, Channel, Source:
		return Catalog
	case Task:
		return Dispatcher
	case User:
		return Access
	default:
		return Registry
	}
}

// Kind is one kind of fact.
type Kind struct {
	Noun Noun
	Name string        // the last token of the subject
	Body proto.Message // an empty one
}

// Kinds is every kind of fact there is, in the order of the nouns' lives.
var Kinds = []Kind{
	{Application, "created", &applicationv1.Created{}},
	{Application, "changed", &applicationv1.Changed{}},
	{Application, "deleted", &applicationv1.Deleted{}},

	{Environment, "created", &environmentv1.Created{}},
	{Environment, "changed", &environmentv1.Changed{}},
	{Environment, "default-set", &environmentv1.DefaultSet{}},
	{Environment, "default-unset", &environmentv1.DefaultUnset{}},
	{Environment, "drift-braked", &environmentv1.DriftBraked{}},
	{Environment, "drift-released", &environmentv1.DriftReleased{}},
	{Environment, "deleted", &environmentv1.Deleted{}},

	{Agent, "created", &agentv1.Created{}},
	{Agent, "changed", &agentv1.Changed{}},
	{Agent, "deleted", &agentv1.Deleted{}},

	{Server, "invited", &serverv1.Invited{}},
	{Server, "enrolled", &serverv1.Enrolled{}},
	{Server, "reinvited", &serverv1.Reinvited{}},
	{Server, "credentials-renewed", &serverv1.CredentialsRenewed{}},
	{Server, "changed", &serverv1.Changed{}},
	{Server, "labelled", &serverv1.Labelled{}},
	{Server, "sysinfo-seen", &serverv1.SysinfoSeen{}},
	{Server, "agents-found", &serverv1.AgentsFound{}},
	{Server, "online", &serverv1.Online{}},
	{Server, "offline", &serverv1.Offline{}},
	{Server, "quarantined", &serverv1.Quarantined{}},
	{Server, "released", &serverv1.Released{}},
	{Server, "revoked", &serverv1.Revoked{}},
	{Server, "ahead", &serverv1.Ahead{}},
	{Server, "epoch-raised", &serverv1.EpochRaised{}},
	{Server, "place-confirmed", &serverv1.PlaceConfirmed{}},
	{Server, "condition-changed", &serverv1.ConditionChanged{}},
	{Server, "duplicated", &serverv1.Duplicated{}},
	{Server, "duplicate-ended", &serverv1.DuplicateEnded{}},
	{Server, "reinstalling", &serverv1.Reinstalling{}},
	{Server, "reinstalled", &serverv1.Reinstalled{}},
	{Server, "log-opened", &serverv1.LogOpened{}},
	{Server, "dying", &serverv1.Dying{}},
	{Server, "dead", &serverv1.Dead{}},
	{Server, "uninstalled", &serverv1.Uninstalled{}},
	{Server, "clean-up-failed", &serverv1.CleanUpFailed{}},
	{Server, "forgotten", &serverv1.Forgotten{}},

	{Instance, "wanted", &instancev1.Wanted{}},
	{Instance, "unwanted", &instancev1.Unwanted{}},
	{Instance, "observed", &instancev1.Observed{}},
	{Instance, "adopted", &instancev1.Adopted{}},
	{Instance, "gone", &instancev1.Gone{}},

	{External, "reported", &externalv1.Reported{}},
	{External, "gone", &externalv1.Gone{}},

	{Intent, "accepted", &intentv1.Accepted{}},
	{Intent, "refused", &intentv1.Refused{}},
	{Intent, "withdrawn", &intentv1.Withdrawn{}},

	{Image, "created", &imagev1.Created{}},
	{Image, "filled", &imagev1.Filled{}},
	{Image, "activated", &imagev1.Activated{}},
	{Image, "disabled", &imagev1.Disabled{}},
	{Image, "enabled", &imagev1.Enabled{}},
	{Image, "deleted", &imagev1.Deleted{}},

	{Channel, "created", &channelv1.Created{}},
	{Channel, "image-added", &channelv1.ImageAdded{}},
	{Channel, "image-removed", &channelv1.ImageRemoved{}},
	{Channel, "deleted", &channelv1.Deleted{}},
	{Source, "added", &sourcev1.Added{}},
	{Source, "synced", &sourcev1.Synced{}},
	{Source, "removed", &sourcev1.Removed{}},

	{Task, "queued", &taskv1.Queued{}},
	{Task, "assigned", &taskv1.Assigned{}},
	{Task, "started", &taskv1.Started{}},
	{Task, "deferred", &taskv1.Deferred{}},
	{Task, "resumed", &taskv1.Resumed{}},
	{Task, "succeeded", &taskv1.Succeeded{}},
	{Task, "failed", &taskv1.Failed{}},
	{Task, "undone", &taskv1.Undone{}},
	{Task, "cancelled", &taskv1.Cancelled{}},
	{Task, "expired", &taskv1.Expired{}},
	{Task, "superseded", &taskv1.Superseded{}},
	{Task, "reported-late", &taskv1.ReportedLate{}},
	{Task, "claimed", &taskv1.Claimed{}},

	{User, "created", &userv1.Created{}},
	{User, "renewed", &userv1.Renewed{}},
	{User, "revoked", &userv1.Revoked{}},

	{Token, "created", &tokenv1.Token{}},
	{Token, "used", &tokenv1.Used{}},
	{Token, "revoked", &tokenv1.Revoked{}},

	{LabelRule, "set", &labelrulev1.LabelRule{}},
	{LabelRule, "unset", &labelrulev1.Unset{}},

	{Lobby, "rejected", &lobbyv1.Rejection{}},

	{Rollout, "planned", &rolloutv1.Planned{}},
	{Rollout, "extended", &rolloutv1.Extended{}},
	{Rollout, "opened", &rolloutv1.Opened{}},
	{Rollout, "released", &rolloutv1.Released{}},
	{Rollout, "primed", &rolloutv1.Primed{}},
	{Rollout, "passed", &rolloutv1.Passed{}},
	{Rollout, "halted", &rolloutv1.Halted{}},
	{Rollout, "silenced", &rolloutv1.Silenced{}},
	{Rollout, "paused", &rolloutv1.Paused{}},
	{Rollout, "resumed", &rolloutv1.Resumed{}},
	{Rollout, "approved", &rolloutv1.Approved{}},
	{Rollout, "rejected", &rolloutv1.Rejected{}},
	{Rollout, "succeeded", &rolloutv1.Succeeded{}},
	{Rollout, "aborted", &rolloutv1.Aborted{}},
	{Rollout, "undone", &rolloutv1.Undone{}},

	{Hold, "set", &holdv1.Hold{}},
	{Hold, "unset", &holdv1.Unset{}},

	{Block, "set", &blockv1.Block{}},
	{Block, "lifted", &blockv1.Lifted{}},
}

var (
	bySubject = map[[2]string]Kind{} // by noun and name
	byType    = map[string]Kind{}    // by protobuf name
)

func init() {
	for _, k := range Kinds {
		bySubject[[2]string{string(k.Noun), k.Name}] = k
		byType[typeName(k.Body)] = k
	}
}

func typeName(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// rests lists, for each noun, the nouns that its facts are decided from. A service that does not know all of one of
// them cannot decide about the noun. Every noun is here, and what bears on a change bears on instances and tasks.
var rests = map[Noun][]Noun{
	Application: {Agent, Instance},
	Environment: {Server, Agent, Image, Channel, Instance, Block, LabelRule, Lobby, Rollout, Token},
	Agent:       {Application, Environment, Instance},
	Server:      {Environment, Instance, Task, Hold, LabelRule, Lobby, Token},
	Instance:    {Server, Agent, Application, Environment, Image, Channel, Task, Intent, Rollout, Hold, Block},
	External:    {Server},
	Intent:      {Instance, Server, Agent, Application, Environment, Image, Channel, Task, Rollout, Hold, Block},
	Image:       {Channel, Rollout},
	Channel:     {Image, Rollout},
	Source:      {},
	Task:        {Instance, Server, Image, Agent, Environment, Intent, Hold},
	User:        {},
	Token:       {Environment, Server},
	LabelRule:   {Environment, Server},
	Lobby:       {Environment, LabelRule, Server, Token},
	Rollout:     {Instance, Server, Agent, Application, Environment, Image, Channel, Task, Intent, Hold, Block},
	Hold:        {Agent, Server, Environment},
	Block:       {Agent, Image, Instance, Task, Rollout},
}

// RestsOn returns the nouns that facts about n are decided from, n itself first.
func (n Noun) RestsOn() []Noun { return append([]Noun{n}, rests[n]...) }

// Known reports whether this program knows the noun.
func (n Noun) Known() bool {
	_, known := rests[n]
	return known
}
