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
				return showOne(s, s.view(), meaningListing, meaningOf(code))
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
		out = append(out, meaningOf(code))
	}
	return out
}

type codeMeaning struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
	Try     string `json:"try"`
}

func meaningOf(code string) codeMeaning {
	m := meanings[code]
	return codeMeaning{Code: code, Meaning: m.what, Try: m.try}
}

type meaningList struct {
	Codes []codeMeaning `json:"codes"`
}

var meaningListing = listing[codeMeaning]{
	name: func(c codeMeaning) string { return c.Code },
	columns: []column[codeMeaning]{
		{title: "CODE", value: func(_ view, c codeMeaning) string { return c.Code }},
		{title: "MEANING", value: func(_ view, c codeMeaning) string { return c.Meaning }},
		{title: "TRY", wide: true, value: func(_ view, c codeMeaning) string { return c.Try }},
	},
}
