package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// meanings says for each code what happened and what helps.
var meanings = map[string]string{
	// Said by the command line and the bus.
	"BUS_AWAY":        "The bus cannot be reached at the address of the context. Nothing was asked. Look whether the bus runs and the address is right.",
	"LOGIN_REFUSED":   "The bus does not accept the credentials of the context or the token: they are of another Garrison, expired or revoked.",
	"NOT_ALLOWED":     "The role of the context may not do this. Viewers read, operators change, admins invite and forget servers.",
	"NO_ANSWER":       "The bus is there, but no service of that name answers. Look at garrison versions --server.",
	"NO_CONTEXT":      "Nobody said where the bus is. A context file does; save it with garrison context add NAME FILE.",
	"UNKNOWN_CONTEXT": "No context is saved under that name.",
	"DENIED":          "The service does not let this caller do it.",
	"CONFLICT":        "The world moved between looking and writing. Look again and decide again.",
	"UNAVAILABLE":     "The service cannot do it now. Asking again later may work.",
	"INVALID":         "The question was wrong. Asking again does not help.",

	// Said by the registry about intents.
	"EMPTY_SELECTOR":     "An intent must say on which servers; for all of them say --on all.",
	"NO_SERVERS":         "The selector matches no server that is alive.",
	"UNKNOWN_SERVER":     "No server has that id, unique prefix or name.",
	"AMBIGUOUS_SERVER":   "More than one server has an id with that prefix. Give more of it, or the name.",
	"UNKNOWN_AGENT":      "No agent has that name. Agents are created before they are installed.",
	"NO_MATCH":           "No image fits the agent, the version or channel, and the platform of every target.",
	"NOT_ACTIVE":         "The image is known, but it is not active. Only active images are installed.",
	"WRONG_PLATFORM":     "The image is for another operating system or architecture than a target has.",
	"WRONG_KIND":         "The image says another kind than the agent has.",
	"MALFORMED":          "The intent cannot be read, or its subject says something else than its body.",
	"MISSING_DEPENDENCY": "A target lacks an agent that this one needs first.",
	"ALREADY_INSTALLED":  "The targets have the agent already, at another image. Change it with garrison up.",
	"NO_INSTANCES":       "No target has the agent, so there is nothing to change.",
	"SERVER_ONLINE":      "A server that is heard is not lost. Decommission it without --lost.",
	"NOT_ALIVE":          "The server is invited, dying or dead. Only servers that are alive take changes.",
	"UNKNOWN_INTENT":     "The registry does not know the intent: it was never published, or is not read yet.",
	"TOO_MANY_SERVERS":   "The intent changes more servers than one intent may. Select fewer at a time.",
	"TOO_MANY_INSTANCES": "The change touches more instances than one step may.",

	// Said by the registry about its records.
	"UNKNOWN_ENVIRONMENT": "No environment has that name.",
	"UNKNOWN_APPLICATION": "No application has that name.",
	"EXISTS":              "Something of that name is there already.",
	"IN_USE":              "Something still refers to it; take that away first.",
	"NOT_DEAD":            "Only a dead server, or an invitation that was not used, can be forgotten.",
	"KIND_FIXED":          "An agent's kind never changes. Create another agent.",
	"DEPENDENCY_CYCLE":    "Agents would need each other in a circle.",
	"DUPLICATE_NAME":      "The name is taken by a server that is not dead.",
	"BAD_NAME":            "A name has 1 to 63 lower-case letters, digits and inner dashes.",
	"BAD_LABEL":           "A label's name or value has characters that are not allowed, or is too long.",
	"BAD_CURSOR":          "The cursor is not one that a list ended with.",
	"BAD_DURATION":        "The time is out of bounds; a token lasts thirty days at most.",

	// Said when a server joins.
	"UNKNOWN_TOKEN": "The token's server is not known, or its secret is wrong.",
	"USED_TOKEN":    "The token was used by another key. Make a new one with garrison server enroll.",
	"EXPIRED_TOKEN": "The token is too old. Take the invitation back with garrison server forget, and invite the server again.",
	"OTHER_SERVER":  "The directory belongs to another server. Join in another directory, or decommission that server first.",

	// Said by the image-catalog and about image files.
	"UNKNOWN_CHANNEL":  "No channel has that name.",
	"CHANNEL_EXISTS":   "A channel has that name already.",
	"DEFAULT_CHANNEL":  "The default channel cannot be deleted.",
	"AMBIGUOUS_IMAGE":  "More than one image fits. Give more of the id.",
	"VERSION_EXISTS":   "Another image has this agent, version and platform. A version is built once; raise it.",
	"STILL_CHECKING":   "The catalog is still reading the content back before the image is active.",
	"CHUNK_MISSING":    "A part of the content is not stored. Import the file again; it goes on where it stopped.",
	"CHUNK_MISMATCH":   "A stored part has another digest than the manifest says.",
	"WRONG_DIGEST":     "The content is not what the manifest says: it was damaged or changed.",
	"WRONG_ID":         "The image's id does not fit its content.",
	"NOT_AN_IMAGE":     "The file is not an image file.",
	"TRUNCATED":        "The file is cut short.",
	"NO_RECIPE":        "The directory has no garrison.yaml.",
	"BAD_RECIPE":       "garrison.yaml cannot be read, or a value in it is not valid.",
	"UNKNOWN_KEY":      "garrison.yaml has a key that means nothing.",
	"NO_COMMAND":       "The command is not in the directory, or cannot be run.",
	"OUTSIDE":          "A path or a symbolic link leads out of the directory.",
	"BAD_MANIFEST":     "A field of the image's description is missing or not valid.",
	"SPECIAL_FILE":     "Only files, directories and symbolic links can be packed.",
	"TOO_LARGE":        "The image holds more than an image may.",
	"BAD_VERSION":      "A version is a semantic version, such as 1.2.3.",
	"UNKNOWN_PLATFORM": "Garrison does not run on that operating system and architecture.",

	// Said by the task-dispatcher and the executor.
	"UNKNOWN_TASK":     "No task has that id or unique prefix.",
	"AMBIGUOUS_TASK":   "More than one task has an id with that prefix. Give more of it.",
	"NOT_QUEUED":       "Only a task that is not assigned yet can be cancelled.",
	"NOT_READY":        "The new version did not become ready in time; the old one runs again where there was one.",
	"NO_SPACE":         "The server's disk has too little room for the image.",
	"SOCKET_TAKEN":     "Something else listens at an address that the image declares, so it cannot be held for the agent. Nothing was changed.",
	"BAD_SOCKET":       "The image declares a socket whose address cannot be listened at. Nothing was changed.",
	"UNKNOWN_VARIABLE": "The image uses a ${variable} that the server does not have, such as a label.",
	"DIGEST_MISMATCH":  "What the server fetched is not what the manifest says. Nothing was changed.",
	"SETUP_FAILED":     "The set-up of a oneshot agent ended with an error.",
	"NOT_STARTED":      "The agent's program could not be started.",
	"EXITED":           "The agent ended before it had proven that it works. Its last words: garrison task show TASK.",
	"UNSTABLE":         "The agent did not stay as it should while it was watched. Its last words: garrison task show TASK.",
	"TIMED_OUT":        "A step took longer than it may.",
}

func (s *session) explainCommand() *cobra.Command {
	codes := slices.Sorted(maps.Keys(meanings))
	return &cobra.Command{
		Use: "explain [CODE | SERVER [AGENT]]", Short: "What a code in a refusal means; or why a server or an agent on it is as it is, and what comes next",
		Example: "  garrison explain NO_MATCH\n" +
			"  garrison explain web-1 beacon\n" +
			"  garrison explain            # every code",
		Args: atMost("CODE or SERVER", "AGENT"), ValidArgs: codes,
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) == 0 {
				return show(s, meaningListing, meaningList{meaningsOf(codes)}, meaningsOf(codes))
			}
			code := strings.ToUpper(a[0])
			if _, ok := meanings[code]; ok && len(a) == 1 {
				return showOne(s, s.view(), meaningListing, codeMeaning{code, meanings[code]})
			}
			if a[0] == code && strings.ContainsAny(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") && len(a) == 1 { // names of servers have no capitals
				return refuse(fault.NotFound, &apiv1.Refusal{
					Code: "UNKNOWN_CODE", Message: fmt.Sprintf("no code %s (%d are known)", code, len(meanings)),
					Nearest: nearest(code, codes), Try: "garrison explain",
				})
			}
			return s.explainServer(c.Context(), a[0], a[1:])
		},
	}
}

func meaningsOf(codes []string) []codeMeaning {
	var out []codeMeaning
	for _, code := range codes {
		out = append(out, codeMeaning{code, meanings[code]})
	}
	return out
}

type codeMeaning struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
}

type meaningList struct {
	Codes []codeMeaning `json:"codes"`
}

var meaningListing = listing[codeMeaning]{
	name: func(c codeMeaning) string { return c.Code },
	columns: []column[codeMeaning]{
		{title: "CODE", value: func(_ view, c codeMeaning) string { return c.Code }},
		{title: "MEANING", value: func(_ view, c codeMeaning) string { return c.Meaning }},
	},
}
