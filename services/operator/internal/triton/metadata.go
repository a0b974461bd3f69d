package triton

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// secretName matches the name of a value that is most likely a secret.
var secretName = regexp.MustCompile(`(?i)(^|[_-])(pw|pass|passwd|token|priv_?key|api_?key)($|[_-])|` +
	`password|secret|private_?key`)

// paramsName is the value that holds what Triton calls params.
const paramsName = "params"

// values returns the metadata of an object, and its params as one more value, as a layer of metadata.
func (d *Dump) values(kind, name string, o object) map[string]string {
	out := map[string]string{}
	all := maps.Clone(map[string]any(o.within("metadata")))
	if params := wantedParams(o); len(params) > 0 {
		if all == nil {
			all = map[string]any{}
		}
		if _, taken := all[paramsName]; taken {
			d.skip(kind, name, "params: its metadata has a value with the name params")
		} else {
			all[paramsName] = map[string]any(params)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d.value(kind, name, key, all[key], out)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// wantedParams returns the params without the image, which changes with each upgrade.
func wantedParams(o object) object {
	params := maps.Clone(o.within(paramsName))
	delete(params, "image_uuid")
	return params
}

// value adds a value to a layer, or says why it is left out.
func (d *Dump) value(kind, name, key string, v any, layer map[string]string) {
	if secretName.MatchString(key) || holdsSecret(v) {
		d.skip(kind, name, "metadata "+key+": it is or holds a secret, by its name; set it with --set-secret "+key+
			"=@FILE")
		return
	}
	text, err := json.Marshal(v)
	if err == nil {
		layer[key], err = metadata.FromJSON(string(text))
	}
	if err == nil {
		err = metadata.Check(layer)
	}
	if err != nil {
		delete(layer, key)
		d.skip(kind, name, "metadata "+key+": "+reason(err))
	}
}

// holdsSecret reports whether a value is a private key, or has one or the name of a secret in it.
func holdsSecret(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "PRIVATE KEY-----")
	case []any:
		return slices.ContainsFunc(v, holdsSecret)
	case map[string]any:
		for key, in := range v {
			if secretName.MatchString(key) || holdsSecret(in) {
				return true
			}
		}
	}
	return false
}

// reason returns why something was refused.
func reason(err error) string {
	if r := fault.RefusalOf(err); r != nil {
		return r.GetMessage()
	}
	return err.Error()
}
