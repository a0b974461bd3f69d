package console

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/selection"
)

// Fields of several acts.
var (
	why     = field{Name: "why", Label: "Why", Hint: "a ticket, or a sentence"}
	labels  = field{Name: "labels", Label: "Labels", Hint: "rack=a1 spare-", Required: true, Words: true}
	mustSay = field{Name: "why", Label: "Why", Hint: "a ticket, or a sentence", Required: true}
)

// needed returns a field that must have a value.
func needed(name, label, hint string) field {
	return field{Name: name, Label: label, Hint: hint, Required: true}
}

// unended is the choice of a hold without an end.
const unended = "until it is ended"

// lasting are the choices of how long a hold lasts, as the CLI takes them.
var lasting = map[string]time.Duration{
	"1h": time.Hour, "8h": 8 * time.Hour, "2d": 48 * time.Hour, "7d": 7 * 24 * time.Hour,
}

// acts are the changes of one thing, by the last word of their path.
var acts = map[string]act{
	"hold": {
		button: "Hold an agent",
		fields: []field{
			needed("server", "Server", ""), needed("agent", "Agent", ""),
			{Name: "until", Label: "How long", Choices: []string{"8h", "1h", "2d", "7d", unended}}, why,
		},
		command: func(is values) string {
			command := "garrison hold " + is("agent") + " --on " + is("server")
			if _, ends := lasting[is("until")]; ends {
				command += " --until " + is("until")
			}
			return because(command, is)
		},
		do: hold,
	},
	"unhold": {
		button: "End a hold", fields: []field{needed("hold", "Hold", "its id"), {Name: "server"}, why},
		command: func(is values) string { return because("garrison unhold --id "+is("hold"), is) },
		plan:    planUnhold,
		do: func(v *visit, is values) (string, error) {
			r, err := client.Call[*registryv1.DeleteRecordResponse](v.Context(), v.client,
				record.Delete(ledger.Hold, is("hold"), 0))
			return listing.Plural(len(r.GetRecords()), "hold") + " ended", err
		},
	},
	"label": {
		button:  "Set labels",
		fields:  []field{needed("server", "Server", ""), labels, why},
		command: func(is values) string { return because("garrison server set "+is("server")+" "+is("labels"), is) },
		do: func(v *visit, is values) (string, error) {
			set, unset, err := selection.ParseLabels(strings.Fields(is("labels")))
			if err != nil {
				return "", fault.New(fault.Invalid, "%w", err)
			}
			r, err := client.Call[*registryv1.ChangeServerResponse](v.Context(), v.client,
				&registryv1.ChangeServerRequest{Server: is("server"), SetLabels: set, UnsetLabels: unset})
			return "its labels are " + listing.Pairs(r.GetServer().GetLabels()), err
		},
	},
	"move": {
		button: "Move to an environment",
		fields: []field{
			needed("server", "Server", ""),
			needed("environment", "Environment", "or "+environment.None), why,
		},
		command: func(is values) string {
			return because("garrison server set "+is("server")+" --env "+is("environment"), is)
		},
		plan: planMove,
		do: func(v *visit, is values) (string, error) {
			q := moveOf(is)
			var err error
			if q.PlanSha256, err = hex.DecodeString(is("plan")); err != nil || len(q.PlanSha256) == 0 {
				return "", fault.New(fault.Invalid, "the form holds no plan; go back and show the plan again")
			}
			r, err := client.Call[*registryv1.MoveServersResponse](v.Context(), v.client, q)
			return listing.Plural(int(r.GetMoved()), "server") + " moved to " + is("environment"), err
		},
	},
	"decommission": {
		button: "Decommission", fields: []field{needed("server", "Server", ""), why},
		command: func(is values) string { return because("garrison server decommission "+is("server"), is) },
		plan:    planDecommission,
	},
	"activate": {
		button: "Activate",
		fields: []field{
			needed("image", "Image", ""), {Name: "channel", Label: "Channel", Hint: "those that it is in"}, why,
		},
		command: func(is values) string {
			command := "garrison image activate " + is("image")
			if is("channel") != "" {
				command += " --channel " + is("channel")
			}
			return because(command, is)
		},
		do: func(v *visit, is values) (string, error) {
			_, err := client.Call[*catalogv1.ActivateImageResponse](v.Context(), v.client,
				&catalogv1.ActivateImageRequest{Image: is("image"), Channel: is("channel")})
			return "the image is active", err
		},
	},
	"promote": {
		button: "Promote to a channel",
		fields: []field{needed("image", "Image", ""), needed("channel", "Channel", ""), why},
		command: func(is values) string {
			return because("garrison image promote "+is("image")+" --channel "+is("channel"), is)
		},
		do: func(v *visit, is values) (string, error) {
			_, err := client.Call[*catalogv1.PromoteImageResponse](v.Context(), v.client,
				&catalogv1.PromoteImageRequest{Image: is("image"), Channel: is("channel")})
			return "the image is the newest of channel " + is("channel"), err
		},
	},
	"block": {
		button: "Block",
		fields: []field{needed("agent", "Agent", ""), needed("image", "Image", ""), mustSay},
		command: func(is values) string {
			return because("garrison block "+is("agent")+" --image "+is("image"), is)
		},
		do: func(v *visit, is values) (string, error) {
			r, err := client.Call[*registryv1.AddBlocksResponse](v.Context(), v.client, &registryv1.AddBlocksRequest{
				Agent: is("agent"), ImageId: is("image"), Reason: is("why"),
			})
			if len(r.GetBlocks()) == int(r.GetAlready()) {
				return "it was blocked before, for the reason given then", err
			}
			return "no further server gets the image", err
		},
	},
	"accept": {
		button: "Accept", admin: true,
		fields: []field{
			needed("fingerprint", "Fingerprint", "as the machine shows it"),
			{Name: "environment", Label: "Environment", Hint: "none"}, why,
		},
		command: func(is values) string {
			command := "garrison server accept " + is("fingerprint")
			if is("environment") != "" {
				command += " --env " + is("environment")
			}
			return because(command, is)
		},
		do: func(v *visit, is values) (string, error) {
			q := &registryv1.AcceptLobbyRequest{
				Fingerprints: []string{is("fingerprint")}, Environment: is("environment"),
				NameFrom: tokenv1.NameFrom_NAME_FROM_HOSTNAME,
			}
			r, err := client.Call[*registryv1.AcceptLobbyResponse](v.Context(), v.client, q)
			return listing.Plural(len(r.GetAccepted()), "machine") + " accepted; each joins when it asks again", err
		},
	},
	"reject": {
		button: "Reject", admin: true,
		fields:  []field{needed("fingerprint", "Fingerprint", "as the machine shows it"), why},
		command: func(is values) string { return because("garrison server reject "+is("fingerprint"), is) },
		do: func(v *visit, is values) (string, error) {
			q := &registryv1.RejectLobbyRequest{Fingerprints: []string{is("fingerprint")}, Reason: is("why")}
			r, err := client.Call[*registryv1.RejectLobbyResponse](v.Context(), v.client, q)
			return "rejected until " + listing.Stamp(r.GetUntil()), err
		},
	},
	"pause":  steer("Pause", "pause", "garrison rollout pause ", (*client.Client).PauseRollout),
	"resume": steer("Resume", "resume", "garrison rollout resume ", (*client.Client).ResumeRollout),
	"abort":  steer("Abort", "abort", "garrison rollout abort ", (*client.Client).AbortRollout),
	"approve": {
		button: "Approve", direct: true,
		fields:  []field{needed("rollout", "Rollout", ""), needed("wave", "Wave", ""), reason("approve")},
		command: func(is values) string { return "garrison rollout approve " + is("rollout") },
		do:      approve,
	},
}

// because adds why to a command.
func because(command string, is values) string {
	if is("why") == "" {
		return command
	}
	return command + " -m " + is("why")
}

func hold(v *visit, is values) (string, error) {
	h := &holdv1.Hold{Agent: is("agent"), On: onOne(is), Until: &timestamppb.Timestamp{}}
	if d, ok := lasting[is("until")]; ok {
		h.Until = timestamppb.New(v.at.Add(d))
	}
	r, err := client.Call[*registryv1.PutRecordResponse](v.Context(), v.client, record.Set(h))
	if err != nil {
		return "", err
	}
	until := "until it is ended"
	if at := record.As[*holdv1.Hold](r.GetRecord()).GetUntil(); at != nil {
		until = "until " + listing.Stamp(at)
	}
	return h.GetAgent() + " stays as it is on " + is("server") + " " + until, nil
}

func moveOf(is values) *registryv1.MoveServersRequest {
	q := &registryv1.MoveServersRequest{On: onOne(is), Environment: is("environment")}
	if q.Environment == environment.None {
		q.Environment = ""
	}
	return q
}

// approve approves the wave that a form names.
func approve(v *visit, is values) (string, error) {
	wave, err := strconv.ParseUint(is("wave"), 10, 32)
	if err != nil || wave == 0 {
		return "", fault.New(fault.Invalid, "the form names no wave")
	}
	_, err = client.Call[*registryv1.AnswerRolloutResponse](v.Context(), v.client, &registryv1.AnswerRolloutRequest{
		RolloutId: is("rollout"), Answer: registryv1.RolloutAnswer_ROLLOUT_ANSWER_APPROVE,
		Wave: uint32(wave), Reason: is("reason"),
	})
	return "", err
}
