package node

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// SettingError refuses a setting. Its text is one line that names the setting,
// the value it had and the value it wanted.
type SettingError struct {
	// Setting is the environment variable, and the flag that stands for it.
	Setting string
	// Value is what it was set to; empty when it was not set.
	Value string
	// Want says which values are taken.
	Want string
}

func (e *SettingError) Error() string {
	flag := FlagName(e.Setting)
	if e.Value == "" {
		return fmt.Sprintf("setting %s (--%s) is missing: want %s", e.Setting, flag, e.Want)
	}
	return fmt.Sprintf("setting %s (--%s) is %q: want %s", e.Setting, flag, e.Value, e.Want)
}

func refuse(setting, value, want string) error {
	return &SettingError{Setting: setting, Value: value, Want: want}
}

// Setting describes one field of a settings struct.
type Setting struct {
	// Name is the environment variable.
	Name string
	// Default applies when it is not set; empty means none.
	Default string
	// Want says which values are taken.
	Want string
	// Usage says what it is for.
	Usage string
	// Required settings have no default and must be set.
	Required bool

	field    string
	min, max string
	oneof    []string
	index    []int
}

// FlagName is the command-line flag that stands for an environment variable:
// WORKPULL_MAX_PENDING becomes max-pending.
func FlagName(variable string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "WORKPULL_")), "_", "-")
}

// Describe lists the settings of a struct in the order of its fields, those of
// embedded structs included. The tags are env (the variable), envDefault,
// required, min and max (of whole numbers and durations), oneof (a list), want
// and usage.
func Describe(settings any) []Setting {
	return describe(reflect.Indirect(reflect.ValueOf(settings)).Type(), nil)
}

func describe(t reflect.Type, path []int) []Setting {
	var all []Setting
	for i := range t.NumField() {
		field := t.Field(i)
		index := append(slices.Clone(path), i)
		if field.Anonymous {
			all = append(all, describe(field.Type, index)...)
			continue
		}
		name := field.Tag.Get("env")
		if name == "" {
			continue
		}
		s := Setting{
			Name: name, Default: field.Tag.Get("envDefault"), Want: field.Tag.Get("want"), Usage: field.Tag.Get("usage"),
			Required: field.Tag.Get("required") == "true",
			field:    field.Name, min: field.Tag.Get("min"), max: field.Tag.Get("max"), index: index,
		}
		if list := field.Tag.Get("oneof"); list != "" {
			s.oneof = strings.Split(list, ",")
		}
		if s.Want == "" {
			s.Want = s.want(field.Type)
		}
		all = append(all, s)
	}
	return all
}

// Parse fills settings, a pointer to a struct, from the environment. An empty
// value counts as unset. It returns a *SettingError for the first setting that
// is refused, in the order of the fields.
func Parse(settings any, environment map[string]string) error {
	given := make(map[string]string, len(environment))
	for name, value := range environment {
		if value != "" {
			given[name] = value
		}
	}
	err := env.ParseWithOptions(settings, env.Options{Environment: given})
	all := Describe(settings)
	if err != nil {
		return firstRefused(all, given, err)
	}
	root := reflect.ValueOf(settings).Elem()
	for _, s := range all {
		if err := s.check(root.FieldByIndex(s.index), given[s.Name]); err != nil {
			return err
		}
	}
	if completer, ok := settings.(interface{ Complete() error }); ok {
		return completer.Complete()
	}
	return nil
}

// firstRefused turns the parser's errors, which know fields and types only,
// into one about a setting.
func firstRefused(all []Setting, given map[string]string, err error) error {
	for _, s := range all {
		for _, cause := range flatten(err) {
			var parse env.ParseError
			if errors.As(cause, &parse) && parse.Name == s.field {
				return refuse(s.Name, given[s.Name], s.Want)
			}
		}
	}
	return fmt.Errorf("read the settings: %w", err)
}

func flatten(err error) []error {
	var aggregate env.AggregateError
	if errors.As(err, &aggregate) {
		return aggregate.Errors
	}
	return []error{err}
}

func (s *Setting) check(value reflect.Value, given string) error {
	if s.Required && value.IsZero() {
		return refuse(s.Name, given, s.Want)
	}
	if len(s.oneof) > 0 && !value.IsZero() && !slices.Contains(s.oneof, value.String()) {
		return refuse(s.Name, value.String(), s.Want)
	}
	if !value.CanInt() {
		return nil
	}
	if (s.min != "" && value.Int() < s.bound(s.min, value)) || (s.max != "" && value.Int() > s.bound(s.max, value)) {
		return refuse(s.Name, fmt.Sprint(value.Interface()), s.Want)
	}
	return nil
}

var durationType = reflect.TypeFor[time.Duration]()

// bound reads a bound from a tag; a tag that cannot be read is a mistake in
// this program.
func (s *Setting) bound(tag string, value reflect.Value) int64 {
	if value.Type() == durationType {
		d, err := time.ParseDuration(tag)
		if err != nil {
			panic(fmt.Sprintf("setting %s: bound %q: %v", s.Name, tag, err))
		}
		return int64(d)
	}
	n, err := strconv.ParseInt(tag, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("setting %s: bound %q: %v", s.Name, tag, err))
	}
	return n
}

func (s *Setting) want(t reflect.Type) string {
	what := "a text"
	switch {
	case len(s.oneof) > 0:
		return "one of " + strings.Join(s.oneof, ", ")
	case t == durationType:
		what = "a duration such as 30s or 5m"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		what = "a whole number"
	case t.Kind() == reflect.Bool:
		what = "true or false"
	case t.Kind() == reflect.Slice:
		what = "a list separated by commas"
	}
	switch {
	case s.min != "" && s.max != "":
		return fmt.Sprintf("%s from %s to %s", what, s.min, s.max)
	case s.min != "":
		return fmt.Sprintf("%s of at least %s", what, s.min)
	}
	return what
}
