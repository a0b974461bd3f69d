package image

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// ReadBytes opens and verifies an image file that is in memory, for fuzzing.
func ReadBytes(ctx context.Context, data []byte) error {
	r := bytes.NewReader(data)
	m, offset, err := readLayout("x.gimg", r, r.Size())
	if err != nil {
		return err
	}
	return (&File{file: r, manifest: m, offset: offset}).Verify(ctx)
}

// Unlisted packs an entry whose directory could not be read.
func Unlisted(name string, err error) error {
	return (&packer{ctx: context.Background()}).entry(name, nil, err)
}

// Formless returns the keys of a recipe that hold no text and no truth value, and whose right form is not known.
func Formless() []string { return formless("", reflect.TypeFor[recipe]()) }

func formless(at string, t reflect.Type) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := at + f.Tag.Get("json")
		kind := f.Type
		if of := reflect.PointerTo(kind).Implements(reflect.TypeFor[json.Unmarshaler]()); of {
			continue // it names its own form
		}
		if kind.Kind() != reflect.String && kind.Kind() != reflect.Bool && forms[key] == "" {
			out = append(out, key)
		}
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice}, kind.Kind()) {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct {
			out = append(out, formless(strings.TrimSuffix(key, ".")+".", kind)...)
		}
	}
	return out
}
