package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/regular"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Values are the flags that change one layer of metadata. They are read when the command runs, because they may name
// files.
type Values struct {
	set, sets []string // --set and --set-json
	secrets   Secrets
	from      string
	unset     []string
	replace   bool
}

// Add adds the flags that set values.
func (v *Values) Add(f *pflag.FlagSet, whose string) {
	f.Var(appendTo(&v.set), "set", "set a value of "+whose+", `NAME=VALUE`, NAME=@FILE, or NAME=@- for standard "+
		"input; @@ begins a value with @; repeatable")
	f.Var(appendTo(&v.sets), "set-json", "set a value of "+whose+" that is not text, `NAME=JSON` or NAME=@FILE; an "+
		"object is merged into the one that is there, null hides what is set elsewhere; repeatable")
	f.Var(textValue(&v.from, NotEmpty("file")), "from", "set all values in `FILE`, an object in "+
		"YAML or JSON; - is standard input")
	v.secrets.Add(f, whose)
}

// AddChanges adds the flags that delete values.
func (v *Values) AddChanges(f *pflag.FlagSet, whose string) {
	NamesVar(f, &v.unset, "unset", metadata.CheckPath,
		"delete a value of "+whose+", `NAME`, or NAME.KEY in a nested value; repeatable")
	f.BoolVar(&v.replace, "replace", false, "replace all values of "+whose+" by those that are set")
}

// RevisionVar adds the flag --if-revision.
func RevisionVar(f *pflag.FlagSet, to *uint64, help string) {
	f.Var(FlagValue{Read: func(text string) (err error) {
		if *to, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%q is not a whole number from 0", text)
		}
		return nil
	}}, "if-revision", help)
}

func appendTo(words *[]string) FlagValue {
	return FlagValue{Read: func(text string) error {
		*words = append(*words, text)
		return nil
	}}
}

// Change returns what the flags do. It reads the files that they name, and has the registry seal the secrets.
func (v *Values) Change(ctx context.Context, env *Env) (metadata.Change, error) {
	c := metadata.Change{Unset: v.unset, Replace: v.replace}
	set, err := v.read(env)
	if err != nil {
		return c, err
	}
	if len(set) > 0 {
		c.Set = set
	}
	if v.replace && v.from == "" && len(set)+len(v.secrets) == 0 {
		return c, Usage("--replace without values would delete all; to do that, pass --from a FILE with {}")
	}
	if err := c.Check(); err != nil {
		return c, Usage("%v", err)
	}
	sealed, err := v.secrets.Seal(ctx, env)
	if err != nil {
		return c, err
	}
	for name := range sealed {
		if _, both := set[name]; both || slices.Contains(v.unset, name) {
			return c, Usage("--set-secret and another flag both name %s", name)
		}
	}
	if len(sealed) > 0 {
		maps.Copy(set, sealed)
		c.Set = set
	}
	return c, nil
}

// read returns the values that are not secret: the values of the file, and then the others, each over the ones before.
func (v *Values) read(env *Env) (map[string]string, error) {
	out := map[string]string{}
	var err error
	if v.from != "" {
		if out, err = readObject(env, v.from); err != nil {
			return nil, Usage("--from: %v", err)
		}
	}
	for _, word := range v.set {
		name, value, err := readPair(env, "--set", word, metadata.MaxValue)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	for _, word := range v.sets {
		name, text, err := readPair(env, "--set-json", word, 4*metadata.MaxNested)
		if err != nil {
			return nil, err
		}
		value, err := metadata.FromJSON(text)
		if err != nil {
			return nil, Usage("--set-json %s: %v", name, err)
		}
		out = metadata.Change{Set: map[string]string{name: value}}.Apply(out)
	}
	return out, nil
}

// readPair splits NAME=VALUE and reads the file that the value names.
func readPair(env *Env, flag, word string, limit int64) (name, value string, err error) {
	name, value, ok := strings.Cut(word, "=")
	if !ok || name == "" {
		return "", "", Usage("%s: %q is not NAME=VALUE. Try: %[1]s %[3]s=VALUE", flag, word, cmp.Or(name, "NAME"))
	}
	if err := metadata.CheckName(name); err != nil {
		return "", "", Usage("%s: %v", flag, err)
	}
	if value, err = readValue(env, value, limit); err != nil {
		return "", "", Usage("%s %s: %v", flag, name, err)
	}
	return name, value, nil
}

// readObject reads a file with values by name: text, or anything else that JSON has.
func readObject(env *Env, path string) (map[string]string, error) {
	text, err := readFile(env, path, 4*metadata.MaxBytes)
	if err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return nil, fmt.Errorf("%s is not an object of values by name", path)
	}
	out := map[string]string{}
	for name, part := range parts {
		var plain string // text, or a value as show -o json prints it
		if json.Unmarshal(part, &plain) == nil && string(part) != "null" {
			out[name] = plain
			continue
		}
		if out[name], err = metadata.FromJSON(string(part)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// readValue returns a value, or what the file holds that it names, without the newline at its end. @@ begins a value
// with one @.
func readValue(env *Env, value string, limit int64) (string, error) {
	path, isFile := strings.CutPrefix(value, "@")
	switch {
	case !isFile:
		return value, nil
	case strings.HasPrefix(path, "@"):
		return path, nil
	}
	text, err := readFile(env, path, limit)
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), err
}

// readFile reads a file, or standard input for -, and at most two bytes more than the limit: the value is checked
// later.
func readFile(env *Env, path string, limit int64) (string, error) {
	data, err := env.ReadInput(path, limit+2)
	if err != nil {
		return "", fmt.Errorf("cannot read the file that it names: %w", err)
	}
	return string(data), nil
}

// ReadInput reads a file that a person named, or standard input for -, and at most a limit of bytes.
func (env *Env) ReadInput(path string, limit int64) ([]byte, error) {
	from := env.In
	if path != "-" {
		f, err := regular.OpenNamed(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	return io.ReadAll(io.LimitReader(from, limit))
}

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
