package events

import (
	"fmt"
	"slices"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// detailOf summarizes the content of a fact in a few words.
func detailOf(f ledger.Fact) string {
	switch f.Noun {
	case ledger.Server:
		return serverDetail(f)
	case ledger.Instance:
		return instanceDetail(f)
	case ledger.Intent:
		return intentDetail(f)
	case ledger.Image, ledger.Channel:
		return imageDetail(f)
	case ledger.Task:
		return taskDetail(f)
	case ledger.User:
		return userDetail(f)
	case ledger.External:
		return externalDetail(f)
	case ledger.Token:
		return tokenDetail(f)
	case ledger.LabelRule:
		return labelRuleDetail(f)
	case ledger.Hold:
		return holdDetail(f)
	case ledger.Block:
		return blockDetail(f)
	case ledger.Rollout:
		return rolloutDetail(f)
	case ledger.Lobby:
		return f.Body.(interface{ GetReason() string }).GetReason()
	}
	return recordDetail(f)
}

func externalDetail(f ledger.Fact) string {
	b, ok := f.Body.(*externalv1.Reported)
	if !ok {
		return ""
	}
	text := strings.TrimSpace(b.GetFound().GetVersion() + " " + output.Word(b.GetFound().GetHealth()))
	return strings.TrimSuffix(text+": "+b.GetFound().GetReason(), ": ")
}

func userDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *userv1.Created:
		return output.Word(b.GetRole()) + ", valid until " + output.Stamp(b.GetExpiresAt())
	case *userv1.Renewed:
		return "valid until " + output.Stamp(b.GetExpiresAt())
	case *userv1.Revoked:
		return b.GetReason()
	}
	return ""
}

func tokenDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *tokenv1.Token:
		return fmt.Sprintf("%s, valid until %s", output.Plural(int(b.GetUses()), "server"),
			output.Stamp(b.GetExpiresAt()))
	case *tokenv1.Used:
		var from []string
		for _, u := range b.GetUses() {
			from = append(from, strings.TrimSpace(ident.Short(u.GetServerId())+" "+u.GetAddress()))
		}
		return strings.Join(from, ", ")
	case *tokenv1.Revoked:
		return b.GetReason()
	}
	return ""
}

func labelRuleDetail(f ledger.Fact) string {
	b, _ := f.Body.(*labelrulev1.LabelRule)
	return output.Pairs(b.GetLabels())
}

func recordDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *agentv1.Created:
		return agentText(b.GetAgent())
	case *agentv1.Changed:
		return agentText(b.GetAgent())
	case *applicationv1.Created:
		return b.GetApplication().GetDescription()
	case *applicationv1.Changed:
		return b.GetApplication().GetDescription()
	case *environmentv1.Created:
		return phrase("channel", b.GetEnvironment().GetChannel(), b.GetEnvironment().GetDescription())
	case *environmentv1.Changed:
		return phrase("channel", b.GetEnvironment().GetChannel(), b.GetEnvironment().GetDescription())
	case *environmentv1.DefaultSet:
		return strings.TrimSpace(display.ChoiceText(b.GetAgent(), b.GetImage()) + " for " +
			display.ReachText(b.GetReach()) + " " + output.Pairs(b.GetMetadata()))
	case *environmentv1.DefaultUnset:
		return b.GetAgent()
	case *environmentv1.DriftBraked:
		return fmt.Sprintf("%d of %d online servers drift, more than %d %%", b.GetDrifting(), b.GetOnline(),
			b.GetPercent())
	case *environmentv1.DriftReleased:
		return fmt.Sprintf("%d of %d online servers drift", b.GetDrifting(), b.GetOnline())
	}
	return ""
}

func agentText(a *agentv1.Agent) string {
	text := output.Word(a.GetKind()) + " " + phrase("of", a.GetApplication(), a.GetDescription())
	return strings.TrimSpace(text)
}

// phrase returns "word value rest" without empty parts.
func phrase(word, value, rest string) string {
	if value != "" {
		value = word + " " + value
	}
	return strings.TrimSpace(value + " " + rest)
}

func serverDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		return strings.TrimSpace(b.GetName() + " in cell " + b.GetCell() + " " + output.Pairs(b.GetLabels()))
	case *serverv1.Reinvited:
		return phrase("token valid until", output.Stamp(b.GetExpiresAt()), "")
	case *serverv1.Enrolled:
		return sysinfoText(b.GetSysinfo())
	case *serverv1.CredentialsRenewed:
		return phrase("until", output.Stamp(b.GetExpiresAt()), "")
	case *serverv1.Changed:
		return strings.TrimSpace(phrase("name", b.GetName(), "") + " " +
			phrase("environment", b.GetEnvironment(), output.Pairs(b.GetLabels())))
	case *serverv1.SysinfoSeen:
		return sysinfoText(b.GetSysinfo())
	case *serverv1.AgentsFound:
		return foundDetail(b)
	case *serverv1.Online:
		return phrase("boot", b.GetBootId(), "")
	case *serverv1.Offline:
		return phrase("last beat", output.Stamp(b.GetLastBeatAt()), "")
	case *serverv1.Quarantined:
		return strings.TrimPrefix(b.GetCode()+": "+b.GetReason(), ": ")
	case *serverv1.Released, *serverv1.Revoked:
		return b.(interface{ GetReason() string }).GetReason()
	case *serverv1.ConditionChanged:
		return strings.TrimSuffix(phrase(output.Word(b.GetState()), b.GetCode(), "")+": "+b.GetReason(), ": ")
	case *serverv1.Duplicated:
		return display.Sightings(b.GetSightings())
	case *serverv1.DuplicateEnded:
		return phrase("left", display.Sightings([]*serverv1.Sighting{b.GetLeft()}), "")
	}
	return serverHistoryDetail(f)
}

// serverHistoryDetail describes the facts about a server's labels by rules, readings of its output, its epoch and its
// end.
func serverHistoryDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *serverv1.Labelled:
		return labelledText(b)
	case *serverv1.LogOpened:
		return phrase("output of", b.GetAgent(), "session "+ident.Short(b.GetSessionId()))
	case *serverv1.Ahead:
		return display.AheadText(&serverv1.ServerAhead{Place: b.GetPlace(), LedgerEnd: b.GetLedgerEnd()})
	case *serverv1.EpochRaised:
		p := b.GetPlace()
		return fmt.Sprintf("to %d; the server was at document %d of epoch %d",
			b.GetEpoch(), p.GetGeneration(), p.GetEpoch())
	case *serverv1.PlaceConfirmed:
		return fmt.Sprintf("document %d of epoch %d", b.GetPlace().GetGeneration(), b.GetPlace().GetEpoch())
	case *serverv1.Reinstalling:
		return "every agent is removed"
	case *serverv1.Reinstalled:
		return "empty; the defaults of its environment are due"
	case *serverv1.Uninstalled:
		if b.GetVia() != "" {
			return fmt.Sprintf("the machine was cleaned by %s: %d paths removed, %d left",
				b.GetVia(), b.GetRemoved(), b.GetLeft())
		}
		return fmt.Sprintf("the executor removes itself: %d paths to remove, %d left", b.GetRemoved(), b.GetLeft())
	case *serverv1.CleanUpFailed:
		return fmt.Sprintf("the machine was not cleaned by %s: %s: %s", b.GetVia(), b.GetCode(), b.GetReason())
	case *serverv1.Dead:
		if b.GetForced() {
			return "given up while it beat: nothing was removed, and its credentials are void"
		}
		if b.GetLost() {
			return "lost: nothing was removed"
		}
		return "every agent was removed"
	}
	return ""
}

// labelledText lists labels with the rules that give them.
func labelledText(b *serverv1.Labelled) string {
	values := map[string]string{}
	for k, l := range b.GetLabels() {
		values[k] = l.GetValue() + " (rule " + l.GetRule() + ")"
	}
	return output.Pairs(values)
}

func sysinfoText(i *serverv1.Sysinfo) string {
	return strings.TrimSpace(
		fmt.Sprintf("%s %s, executor %s", i.GetHostname(), display.Platform(i.GetPlatform()), i.GetExecutorVersion()))
}

func instanceDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		text := fmt.Sprintf("at %s, generation %d", b.GetImage().GetVersion(), b.GetGeneration())
		if m := b.GetConfiguration().GetMetadata(); len(m) > 0 {
			text += ", with " + output.Pairs(m)
		}
		return text
	case *instancev1.Unwanted:
		return fmt.Sprintf("generation %d", b.GetGeneration())
	case *instancev1.Observed:
		text := output.Word(b.GetHealth())
		if v := b.GetImage().GetVersion(); v != "" {
			text = v + " " + text
		}
		return strings.TrimSuffix(text+": "+b.GetReason(), ": ")
	case *instancev1.Adopted:
		text := fmt.Sprintf("process %d %s", b.GetAdoption().GetPid(), b.GetAdoption().GetExe())
		if !b.GetAdoption().GetSame() {
			text += ", not the program of " + b.GetImage().GetVersion()
		}
		return text
	case *instancev1.Gone:
		if b.GetLost() {
			return "with its server, which is lost"
		}
	}
	return ""
}

func intentDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *intentv1.Accepted:
		return fmt.Sprintf("%s: changes %s, %d up to date, %d skipped", display.IntentText(b.GetIntent()),
			output.Plural(int(b.GetChanged()), "server"), b.GetAlready(), b.GetPassedOver())
	case *intentv1.Refused:
		return strings.TrimPrefix(display.IntentText(b.GetIntent())+": "+fault.Line(b.GetRefusal()), ": ")
	case *intentv1.Withdrawn:
		return b.GetReason()
	}
	return ""
}

func imageDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *imagev1.Created:
		m := b.GetManifest()
		return fmt.Sprintf("%s@%s for %s, %s", m.GetAgent(), m.GetVersion(), display.Platform(m.GetPlatform()),
			output.Size(m.GetBlob().GetSizeBytes()))
	case *imagev1.Disabled:
		return b.GetReason()
	case *channelv1.Created:
		if b.GetDefault() {
			return strings.TrimSuffix("the default channel: "+b.GetDescription(), ": ")
		}
		return b.GetDescription()
	case *channelv1.ImageAdded:
		return "image " + ident.Short(b.GetImageId())
	case *channelv1.ImageRemoved:
		return "image " + ident.Short(b.GetImageId())
	}
	return ""
}

func taskDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *taskv1.Queued:
		return queuedText(b)
	case *taskv1.Assigned:
		return phrase("until", output.Stamp(b.GetDeadline()), "")
	case *taskv1.Deferred:
		return fmt.Sprintf("%s: %s; until %s at the latest", b.GetDeferral().GetCode(), b.GetDeferral().GetReason(),
			output.Stamp(b.GetDeferral().GetUntil()))
	case *taskv1.Resumed:
		if b.GetOverrun() {
			return "at its limit, during the critical section"
		}
		return "the critical section ended"
	case *taskv1.Succeeded:
		return display.Steps(b.GetOutcome())
	case *taskv1.Failed:
		return display.TaskReason(&taskv1.Task{Outcome: b.GetOutcome()})
	case *taskv1.Undone:
		return display.TaskReason(&taskv1.Task{Outcome: b.GetOutcome()})
	case *taskv1.Cancelled:
		return b.GetReason()
	case *taskv1.Expired:
		if b.GetServerDead() {
			return output.Word(b.GetState()) + " until its server was given up"
		}
		return fmt.Sprintf("%s until %s", output.Word(b.GetState()), output.Stamp(b.GetDeadline()))
	case *taskv1.ReportedLate:
		reason := display.TaskReason(&taskv1.Task{Outcome: b.GetOutcome()})
		return strings.TrimSuffix(output.Word(b.GetState())+": "+reason, ": ")
	case *taskv1.Superseded:
		return "by task " + ident.Short(b.GetByTaskId())
	}
	return ""
}

func queuedText(b *taskv1.Queued) string {
	text := strings.TrimSpace(display.VerbText(b) + " " + b.GetAgent())
	if v := b.GetFrom().GetVersion(); v != "" {
		text += " from " + v
	}
	if v := b.GetTo().GetVersion(); v != "" {
		text += " to " + v
	}
	if b.GetAttempt() > 1 {
		text += fmt.Sprintf(", attempt %d", b.GetAttempt())
	}
	return text
}

// foundDetail summarizes the unmanaged agents of a fact.
func foundDetail(b *serverv1.AgentsFound) string {
	var words []string
	for _, f := range b.GetAgents() {
		words = append(words, strings.TrimSpace(f.GetAgent()+" "+output.Word(f.GetTrace())))
	}
	words = slices.Compact(words)
	if b.GetMore() > 0 {
		words = append(words, fmt.Sprintf("and %d more", b.GetMore()))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
