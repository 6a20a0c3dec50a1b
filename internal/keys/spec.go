package keys

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// source is where a part of the ID comes from.
type source uint8

const (
	fromKey source = iota
	fromValue
	fromHeader
	fromJSON
	fromColumn
	fromDigest
	fromCanonicalDigest
)

// spec is one parsed key spec.
type spec struct {
	source source
	header string
	path   []segment
	column int
	// found is the index of what the spec names in the scanner of its source.
	found int
}

// Forms are the key specs that there are.
var Forms = []string{
	"key", "value", "header:NAME", "json:NAME (dots descend)", "json:/POINTER", "column:NUMBER", "column:NAME", "sha256:value", "sha256:json",
}

var knownKinds = strings.Join(Forms[:len(Forms)-1], ", ") + " and " + Forms[len(Forms)-1]

func parseSpec(s string, t Table) (spec, error) {
	p, err := parseKind(s, t)
	if err != nil {
		return spec{}, fmt.Errorf("parse key spec %q: %w", s, err)
	}
	return p, nil
}

func parseKind(s string, t Table) (spec, error) {
	kind, name, named := strings.Cut(s, ":")
	switch kind {
	case "key", "value":
		if named {
			return spec{}, fmt.Errorf("%s takes no name: write %s", kind, kind)
		}
		if kind == "key" {
			return spec{source: fromKey}, nil
		}
		return spec{source: fromValue}, nil
	case "header":
		if name == "" {
			return spec{}, errors.New("the name is missing: write header:NAME")
		}
		return spec{source: fromHeader, header: name}, nil
	case "json":
		path, err := parsePath(name)
		return spec{source: fromJSON, path: path}, err
	case "column":
		n, err := columnNumber(name, t)
		return spec{source: fromColumn, column: n}, err
	case "sha256":
		switch name {
		case "value":
			return spec{source: fromDigest}, nil
		case "json":
			return spec{source: fromCanonicalDigest}, nil
		}
		return spec{}, errors.New("write sha256:value, or sha256:json for JSON whose members have no order")
	}
	if name, ok := strings.CutPrefix(s, jsonPathRoot); ok && name != "" {
		return spec{}, errJSONPath(name)
	}
	if !named && kind != "" {
		return spec{}, fmt.Errorf("unknown kind %q: known are %s; a member of a JSON value is json:%s", kind, knownKinds, kind)
	}
	return spec{}, fmt.Errorf("unknown kind %q: known are %s", kind, knownKinds)
}

// jsonPathRoot is how a path begins in JSONPath (RFC 9535), which many write from
// habit. It would look for a member called $, find none, and deduplicate nothing.
const jsonPathRoot = "$."

func errJSONPath(name string) error {
	return fmt.Errorf(`%s is JSONPath's and no part of a name: write json:%s, or json:/$/%s where a member is called "$"`,
		jsonPathRoot, name, strings.ReplaceAll(name, ".", "/"))
}

// parsePath parses what follows json: in a spec.
func parsePath(s string) ([]segment, error) {
	if s == "" {
		return nil, errors.New("the name is missing: write json:NAME or json:/POINTER")
	}
	if name, ok := strings.CutPrefix(s, jsonPathRoot); ok && name != "" {
		return nil, errJSONPath(name)
	}
	var path []segment
	if s[0] != '/' {
		for _, name := range strings.Split(s, ".") {
			if name == "" {
				return nil, errors.New("a name between dots is empty: write the path as a pointer, json:/a/b, where names hold dots or are empty")
			}
			path = append(path, segment{name: name, element: -1})
		}
		return path, nil
	}
	for _, token := range strings.Split(s[1:], "/") {
		name, err := unescapeToken(token)
		if err != nil {
			return nil, err
		}
		path = append(path, segment{name: name, element: elementNumber(name)})
	}
	return path, nil
}

var (
	tokenEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	tokenUnescaper = strings.NewReplacer("~0", "~", "~1", "/")
)

// unescapeToken decodes a reference token (RFC 6901, section 4).
func unescapeToken(token string) (string, error) {
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return "", fmt.Errorf("bad escape in %q: in a pointer write ~0 for ~ and ~1 for /", token)
		}
	}
	return tokenUnescaper.Replace(token), nil
}

// elementNumber is the number of the array element that a token names, or -1: RFC
// 6901 allows digits without leading zeros.
func elementNumber(token string) int {
	n, err := strconv.Atoi(token)
	if err != nil || n < 0 || strconv.Itoa(n) != token {
		return -1
	}
	return n
}

// String is the one spelling of all specs that mean the same. A dotted path
// becomes a pointer unless one of its names is a number, which only a pointer
// takes for the number of an element too.
func (p *spec) String() string {
	switch p.source {
	case fromKey:
		return "key"
	case fromValue:
		return "value"
	case fromHeader:
		return "header:" + p.header
	case fromColumn:
		return "column:" + strconv.Itoa(p.column)
	case fromDigest:
		return "sha256:value"
	case fromCanonicalDigest:
		return "sha256:json"
	}
	var dotted, pointer strings.Builder
	isDotted := false
	for i, seg := range p.path {
		if i > 0 {
			dotted.WriteByte('.')
		}
		dotted.WriteString(seg.name)
		pointer.WriteByte('/')
		pointer.WriteString(tokenEscaper.Replace(seg.name))
		isDotted = isDotted || seg.element < 0 && elementNumber(seg.name) >= 0
	}
	if isDotted {
		return "json:" + dotted.String()
	}
	return "json:" + pointer.String()
}
