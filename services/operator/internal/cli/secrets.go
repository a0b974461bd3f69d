package cli

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// Secrets are the values of --set-secret. They are parsed when the command runs, because an error of a flag quotes it.
type Secrets []string

// Add adds the flag.
func (s *Secrets) Add(f *pflag.FlagSet, whose string) {
	f.Var(FlagValue{Read: func(text string) error {
		*s = append(*s, text)
		return nil
	}}, "set-secret", "set a secret value of "+whose+", `NAME=@FILE`, NAME=@- for standard input, or NAME=VALUE, "+
		"which other users of this machine see; repeatable")
}

// Seal has the registry seal the values, and returns them by name; nil without any.
func (s Secrets) Seal(ctx context.Context, env *Env) (map[string]string, error) {
	if len(s) == 0 {
		return nil, nil
	}
	values := map[string]string{}
	for _, word := range s {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return nil, Usage("--set-secret: a value is not NAME=@FILE or NAME=VALUE. Try: --set-secret NAME=@FILE")
		}
		if err := metadata.CheckName(name); err != nil {
			return nil, Usage("--set-secret: %v", err)
		}
		text, err := readValue(env, value, metadata.MaxValue)
		if err != nil {
			return nil, Usage("--set-secret %s: %v", name, err)
		}
		values[name] = text
	}
	if err := metadata.Check(values); err != nil {
		return nil, Usage("--set-secret: %v", err)
	}
	r, err := Call[*registryv1.SealSecretsResponse](ctx, env, &registryv1.SealSecretsRequest{Values: values})
	return r.GetSealed(), err
}
