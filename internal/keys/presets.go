package keys

import (
	"fmt"
	"strings"
)

// Preset is what identifies an event in the records of a well-known source.
type Preset struct {
	Name string
	// About says what the ID is, for people who choose.
	About string
	Specs []string
	// Table is the format that column specs need.
	Table TableKind
}

// Presets are all of them.
var Presets = []Preset{
	{Name: "cloudevents", About: "source and id together, as the specification wants it", Specs: []string{"json:source", "json:id"}},
	{Name: "segment", About: "the messageId that the library gives a call, which its retries repeat", Specs: []string{"json:messageId"}},
	{Name: "snowplow", About: "event_id of the enriched format, its seventh column", Specs: []string{"column:7"}, Table: TSV},
	{Name: "ga4", About: "user, event name, time and place in the batch, in the BigQuery export", Specs: []string{
		"json:user_pseudo_id", "json:event_name", "json:event_timestamp", "json:batch_page_id", "json:batch_ordering_id", "json:batch_event_index",
	}},
	{Name: "posthog", About: "the uuid of the event, without the timestamp that a retry changes", Specs: []string{"json:uuid"}},
	{Name: "gharchive", About: "id of the event", Specs: []string{"json:id"}},
	{Name: "wikimedia", About: "id of the event in its meta, since id counts changes of one wiki", Specs: []string{"json:/meta/id"}},
	{Name: "sqs", About: "the SHA-256 of the body, as SQS takes it with content-based deduplication", Specs: []string{"sha256:value"}},
}

// LookupPreset finds a preset by name.
func LookupPreset(name string) (Preset, error) {
	var names []string
	for _, p := range Presets {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	last := len(names) - 1
	return Preset{}, fmt.Errorf("unknown preset %q: want %s or %s", name, strings.Join(names[:last], ", "), names[last])
}
