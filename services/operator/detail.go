package operator

import (
	"fmt"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// detailOf says in a few words what a fact carries beyond its name.
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
	case ledger.Rollout:
		return rolloutDetail(f)
	}
	return recordDetail(f)
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
	}
	return ""
}

func agentText(a *agentv1.Agent) string {
	text := word(a.GetKind()) + " " + phrase("of", a.GetApplication(), a.GetDescription())
	return strings.TrimSpace(text)
}

// phrase writes "word value rest" without the parts that are empty.
func phrase(word, value, rest string) string {
	if value != "" {
		value = word + " " + value
	}
	return strings.TrimSpace(value + " " + rest)
}

func serverDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		return strings.TrimSpace(b.GetName() + " in cell " + b.GetCell() + " " + pairs(b.GetLabels()))
	case *serverv1.Enrolled:
		return sysinfoText(b.GetSysinfo())
	case *serverv1.Changed:
		return phrase("environment", b.GetEnvironment(), pairs(b.GetLabels()))
	case *serverv1.SysinfoSeen:
		return sysinfoText(b.GetSysinfo())
	case *serverv1.AgentsFound:
		return foundDetail(b)
	case *serverv1.Online:
		return phrase("boot", b.GetBootId(), "")
	case *serverv1.Offline:
		return phrase("last beat", stamp(b.GetLastBeatAt()), "")
	case *serverv1.Quarantined:
		return b.GetReason()
	case *serverv1.Released:
		return b.GetReason()
	case *serverv1.Ahead:
		return aheadText(&serverv1.ServerAhead{Place: b.GetPlace(), LedgerEnd: b.GetLedgerEnd()})
	case *serverv1.EpochRaised:
		p := b.GetPlace()
		return fmt.Sprintf("to %d; the server was at document %d of epoch %d", b.GetEpoch(), p.GetGeneration(), p.GetEpoch())
	case *serverv1.PlaceConfirmed:
		return fmt.Sprintf("document %d of epoch %d", b.GetPlace().GetGeneration(), b.GetPlace().GetEpoch())
	case *serverv1.ConditionChanged:
		return strings.TrimSuffix(phrase(word(b.GetState()), b.GetCode(), "")+": "+b.GetReason(), ": ")
	case *serverv1.Duplicated:
		return sightings(b.GetSightings())
	case *serverv1.DuplicateEnded:
		return phrase("left", sightings([]*serverv1.Sighting{b.GetLeft()}), "")
	case *serverv1.Uninstalled:
		if b.GetVia() != "" {
			return fmt.Sprintf("the machine was cleaned by %s: %d paths went, %d stay", b.GetVia(), b.GetRemoved(), b.GetLeft())
		}
		return fmt.Sprintf("the executor removes itself: %d paths go, %d stay", b.GetRemoved(), b.GetLeft())
	case *serverv1.CleanUpFailed:
		return fmt.Sprintf("the machine was not cleaned by %s: %s: %s", b.GetVia(), b.GetCode(), b.GetReason())
	case *serverv1.Dead:
		if b.GetLost() {
			return "lost: nothing was removed"
		}
		return "every agent is removed"
	}
	return ""
}

func sysinfoText(i *serverv1.Sysinfo) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s, executor %s", i.GetHostname(), platform(i.GetPlatform()), i.GetExecutorVersion()))
}

func instanceDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		text := fmt.Sprintf("at %s, generation %d", b.GetImage().GetVersion(), b.GetGeneration())
		if m := b.GetConfiguration().GetMetadata(); len(m) > 0 {
			text += ", with " + pairs(m)
		}
		return text
	case *instancev1.Unwanted:
		return fmt.Sprintf("generation %d", b.GetGeneration())
	case *instancev1.Observed:
		text := word(b.GetHealth())
		if v := b.GetImage().GetVersion(); v != "" {
			text = v + " " + text
		}
		return strings.TrimSuffix(text+": "+b.GetReason(), ": ")
	case *instancev1.Adopted:
		return b.GetImage().GetVersion()
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
		return fmt.Sprintf("%s: changes %s, %d already, %d passed over", intentText(b.GetIntent()), plural(int(b.GetChanged()), "server"), b.GetAlready(), b.GetPassedOver())
	case *intentv1.Refused:
		return strings.TrimPrefix(intentText(b.GetIntent())+": "+fault.Line(b.GetRefusal()), ": ")
	case *intentv1.Withdrawn:
		return b.GetReason()
	}
	return ""
}

func imageDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *imagev1.Created:
		m := b.GetManifest()
		return fmt.Sprintf("%s@%s for %s, %s", m.GetAgent(), m.GetVersion(), platform(m.GetPlatform()), size(m.GetBlob().GetSizeBytes()))
	case *imagev1.Disabled:
		return b.GetReason()
	case *channelv1.Created:
		if b.GetDefault() {
			return strings.TrimSpace("the default channel " + b.GetDescription())
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
		return phrase("until", stamp(b.GetDeadline()), "")
	case *taskv1.Succeeded:
		return stepsText(b.GetOutcome())
	case *taskv1.Failed:
		return taskReason(&taskv1.Task{Outcome: b.GetOutcome()})
	case *taskv1.Undone:
		return taskReason(&taskv1.Task{Outcome: b.GetOutcome()})
	case *taskv1.Cancelled:
		return b.GetReason()
	case *taskv1.Expired:
		return fmt.Sprintf("%s until %s", word(b.GetState()), stamp(b.GetDeadline()))
	case *taskv1.ReportedLate:
		return strings.TrimSuffix(word(b.GetState())+": "+taskReason(&taskv1.Task{Outcome: b.GetOutcome()}), ": ")
	case *taskv1.Superseded:
		return "by task " + ident.Short(b.GetByTaskId())
	}
	return ""
}

func queuedText(b *taskv1.Queued) string {
	text := strings.TrimSpace(word(b.GetVerb()) + " " + b.GetAgent())
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

func rolloutDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *rolloutv1.Planned:
		return fmt.Sprintf("%s in %s", intentText(b.GetPlan().GetIntent()), plural(len(b.GetPlan().GetWaves()), "wave"))
	case *rolloutv1.WaveOpened:
		return fmt.Sprintf("wave %d", b.GetWave())
	case *rolloutv1.WaveClosed:
		return fmt.Sprintf("wave %d: %d succeeded, %d did not", b.GetWave(), b.GetSucceeded(), b.GetFailed())
	case *rolloutv1.Paused:
		return b.GetReason()
	case *rolloutv1.Halted:
		return b.GetReason()
	case *rolloutv1.Aborted:
		return b.GetReason()
	}
	return ""
}
