package display

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"google.golang.org/protobuf/reflect/protoreflect"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/block"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/selection"
)

// opensTask says what a task is, in the fact that opens it.
const opensTask = `{{verb .}} {{.GetAgent}}{{with .GetFrom.GetVersion}} from {{.}}{{end}}` +
	`{{with .GetTo.GetVersion}} to {{.}}{{end}}{{if gt .GetAttempt 1}}, attempt {{.GetAttempt}}{{end}}`

// details are templates of a few words, by noun and facts, for a fact's body. A fact without one has its reason.
var details = map[string]string{
	"agent created changed": `{{with .GetAgent}}{{word .GetKind}} {{and .GetApplication "of"}} {{.GetApplication}} ` +
		`{{.GetDescription}}{{end}}`,
	"application created changed": `{{.GetApplication.GetDescription}}`,
	"environment created changed": `{{with .GetEnvironment}}{{and .GetChannel "channel"}} {{.GetChannel}} ` +
		`{{.GetDescription}}{{end}}`,
	"environment default-set":   `{{choice .GetAgent .GetImage}} for {{reach .GetReach}} {{pairs .GetMetadata}}`,
	"environment default-unset": `{{.GetAgent}}`,
	"environment drift-braked": `{{.GetDrifting}} of {{.GetOnline}} online servers drift, more than ` +
		`{{.GetPercent}} %`,
	"environment drift-released": `{{.GetDrifting}} of {{.GetOnline}} online servers drift`,

	"server invited":               `{{.GetName}} in cell {{.GetCell}} {{pairs .GetLabels}}`,
	"server reinvited":             `{{with .GetExpiresAt}}token valid until {{stamp .}}{{end}}`,
	"server enrolled sysinfo-seen": `{{sysinfo .GetSysinfo}}`,
	"server credentials-renewed":   `{{with .GetExpiresAt}}until {{stamp .}}{{end}}`,
	"server changed": `{{with .GetName}}name {{.}}{{end}} {{with .GetEnvironment}}environment {{.}}{{end}} ` +
		`{{pairs .GetLabels}}`,
	"server labelled":          `{{ruled .GetLabels}}`,
	"server agents-found":      `{{found .}}`,
	"server online":            `{{with .GetBootId}}boot {{.}}{{end}}`,
	"server offline":           `{{with .GetLastBeatAt}}last beat {{stamp .}}{{end}}`,
	"server quarantined":       `{{.GetCode}}{{why .GetReason}}`,
	"server condition-changed": `{{word .GetState}} {{.GetCode}}{{why .GetReason}}`,
	"server duplicated":        `{{sightings .GetSightings}}`,
	"server duplicate-ended":   `left {{sighting .GetLeft}}`,
	"server log-opened":        `{{with .GetAgent}}output of {{.}}{{end}} session {{short .GetSessionId}}`,
	"server ahead":             `{{ahead .}}`,
	"server epoch-raised":      `to {{.GetEpoch}}; the server was at {{place .GetPlace}}`,
	"server place-confirmed":   `{{place .GetPlace}}`,
	"server reinstalling":      `every agent is removed`,
	"server reinstalled":       `empty; the defaults of its environment are due`,
	"server uninstalled": `{{with .GetVia}}the machine was cleaned by {{.}}: {{$.GetRemoved}} paths removed` +
		`{{else}}the executor removes itself: {{.GetRemoved}} paths to remove{{end}}, {{.GetLeft}} left`,
	"server clean-up-failed": `the machine was not cleaned by {{.GetVia}}: {{.GetCode}}: {{.GetReason}}`,
	"server dead": `{{if .GetForced}}given up while it beat: nothing was removed, and its credentials are void` +
		`{{else if .GetLost}}lost: nothing was removed{{else}}every agent was removed{{end}}`,

	"instance wanted": `at {{.GetImage.GetVersion}}, generation {{.GetGeneration}}` +
		`{{with .GetConfiguration.GetMetadata}}, with {{pairs .}}{{end}}`,
	"instance unwanted": `generation {{.GetGeneration}}`,
	"instance observed": `{{.GetImage.GetVersion}} {{word .GetHealth}}{{why .GetReason}}`,
	"instance adopted": `process {{.GetAdoption.GetPid}} {{.GetAdoption.GetExe}}` +
		`{{if not .GetAdoption.GetSame}}, not the program of {{.GetImage.GetVersion}}{{end}}`,
	"instance gone":     `{{if .GetLost}}with its server, which is lost{{end}}`,
	"external reported": `{{with .GetFound}}{{.GetVersion}} {{word .GetHealth}}{{why .GetReason}}{{end}}`,

	"intent accepted": `{{intent .GetIntent}}: changes {{count .GetChanged "server"}}, {{.GetAlready}} up to date, ` +
		`{{.GetPassedOver}} skipped`,
	"intent refused": `{{intent .GetIntent}}{{why (refusal .GetRefusal)}}`,

	"image created": `{{with .GetManifest}}{{.GetAgent}}@{{.GetVersion}} for {{platform .GetPlatform}}, ` +
		`{{size .GetBlob.GetSizeBytes}}{{end}}`,
	"channel created":                   `{{if .GetDefault}}the default channel{{end}}{{why .GetDescription}}`,
	"channel image-added image-removed": `image {{short .GetImageId}}`,

	"task queued":   opensTask,
	"task assigned": `{{with .GetOpened}}` + opensTask + `, {{end}}{{with .GetDeadline}}until {{stamp .}}{{end}}`,
	"task deferred": `{{with .GetDeferral}}{{.GetCode}}: {{.GetReason}}; until {{stamp .GetUntil}} ` +
		`at the latest{{end}}`,
	"task resumed": `{{if .GetOverrun}}at its limit, during the critical section` +
		`{{else}}the critical section ended{{end}}`,
	"task succeeded":     `{{steps .GetOutcome}}`,
	"task failed undone": `{{outcome .GetOutcome}}`,
	"task expired": `{{word .GetState}} until {{if .GetServerDead}}its server was given up` +
		`{{else}}{{stamp .GetDeadline}}{{end}}`,
	"task reported-late": `{{word .GetState}}{{why (outcome .GetOutcome)}}`,
	"task superseded":    `by task {{short .GetByTaskId}}`,

	"user created":  `{{word .GetRole}}, valid until {{stamp .GetExpiresAt}}`,
	"user renewed":  `valid until {{stamp .GetExpiresAt}}`,
	"token created": `{{count .GetUses "server"}}, valid until {{stamp .GetExpiresAt}}`,
	"token used": `{{range $n, $u := .GetUses}}{{if $n}}, {{end}}{{short .GetServerId}}` +
		`{{with .GetAddress}} {{.}}{{end}}{{end}}`,
	"labelrule set": `{{pairs .GetLabels}}`,

	"rollout planned": `{{lane .GetTitle .GetStrategy}}: {{count (len .GetTargets) "server"}} in ` +
		`{{count (len .GetWaves) "wave"}}, part {{.GetPart}} of {{.GetParts}}` +
		`{{with .GetStartAt}}, begins {{stamp .}}{{end}}`,
	"rollout released": `wave {{.GetWave}}: {{count (len .GetServerIds) "server"}}` +
		`{{if gt .GetStep 1}}, step {{.GetStep}} of their changes{{end}}`,
	"rollout primed":          `{{count (len .GetServerIds) "server"}} asked to fetch ahead`,
	"rollout silenced":        `{{count (len .GetServerIds) "server"}}`,
	"rollout opened passed":   `wave {{.GetWave}}`,
	"rollout halted rejected": `wave {{.GetWave}}{{why (reason .GetReason)}}`,
	"rollout approved":        `wave {{.GetWave}}{{why .GetReason}}`,
	"rollout succeeded": `{{.GetOwed}} owed{{with .GetLeftOut}}, {{.}} left out{{end}}` +
		`{{with then .GetThen}}; recorded {{.}}{{end}}`,
	"rollout undone": `by rollout {{.GetByRolloutId}}{{with then .GetTakenBack}}; taken back {{.}}{{end}}`,

	"hold set": `{{or .GetAgent "every agent"}} {{args .GetOn}}` +
		`{{with .GetUntil}} until {{stamp .}}{{end}}`,
	"hold unset": `{{if .GetPassed}}its time passed{{end}}`,
	"block set":  `{{build .GetBuild}}: {{.GetReason}}`,
}

// functions are what a template can call.
var functions = template.FuncMap{
	"word": func(e interface {
		protoreflect.Enum
		String() string
	}) string {
		return listing.Word(e)
	},
	"count": func(n any, noun string) (string, error) {
		var whole int
		_, err := fmt.Sscan(fmt.Sprint(n), &whole)
		return listing.Plural(whole, noun), err
	},
	"why": func(text string) string {
		if text == "" {
			return ""
		}
		return ": " + text
	},
	"stamp": listing.Stamp, "pairs": listing.Pairs, "size": listing.Size, "short": ident.Short, "refusal": fault.Line,
	"choice": ChoiceText, "reach": ReachText, "platform": Platform, "reason": Reason,
	"sightings": Sightings, "intent": BriefText, "steps": Steps, "lane": InLane,
	"then": ThenText, "args": selection.Args, "build": block.Words,
	"verb":    func(b *taskv1.Queued) string { return VerbText(b) },
	"outcome": func(o *taskv1.Outcome) string { return TaskReason(&taskv1.Task{Outcome: o}) },
	"sysinfo": sysinfoText, "found": foundText, "ruled": labelledText, "place": placeText,
	"sighting": func(s *serverv1.Sighting) string { return Sightings([]*serverv1.Sighting{s}) },
	"ahead": func(b *serverv1.Ahead) string {
		return AheadText(&serverv1.ServerAhead{Place: b.GetPlace(), LedgerEnd: b.GetLedgerEnd()})
	},
}

// templates returns the templates by noun and fact.
var templates = sync.OnceValue(func() map[string]*template.Template {
	out := map[string]*template.Template{}
	for facts, text := range details {
		t := template.Must(template.New(facts).Funcs(functions).Parse(text))
		words := strings.Fields(facts)
		for _, fact := range words[1:] {
			out[words[0]+" "+fact] = t
		}
	}
	return out
})

// FactText summarizes the content of a fact in a few words.
func FactText(f ledger.Fact) string {
	t := templates()[string(f.Noun)+" "+f.Name()]
	if t == nil {
		b, _ := f.Body.(interface{ GetReason() string })
		if b == nil {
			return ""
		}
		return b.GetReason()
	}
	var b strings.Builder
	if err := t.Execute(&b, f.Body); err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(listing.OneLine(b.String()), ": ")
}

// labelledText lists labels with the rules that give them.
func labelledText(labels map[string]*serverv1.RuleLabel) string {
	values := map[string]string{}
	for k, l := range labels {
		values[k] = l.GetValue() + " (rule " + l.GetRule() + ")"
	}
	return listing.Pairs(values)
}

func placeText(p *serverv1.DocumentPlace) string {
	return fmt.Sprintf("document %d of epoch %d", p.GetGeneration(), p.GetEpoch())
}

func sysinfoText(i *serverv1.Sysinfo) string {
	return fmt.Sprintf("%s %s, executor %s", i.GetHostname(), Platform(i.GetPlatform()), i.GetExecutorVersion())
}

// foundText summarizes unmanaged agents.
func foundText(b *serverv1.AgentsFound) string {
	var words []string
	for _, f := range b.GetAgents() {
		words = append(words, strings.TrimSpace(f.GetAgent()+" "+listing.Word(f.GetTrace())))
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
