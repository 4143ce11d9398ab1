package source

import (
	"bytes"
	"encoding/json"
)

// A jsonObject has all members in a JSON object in their order. A key may occur several times: the API's decoder
// decodes each value, so each must be checked.
type jsonObject []jsonMember

type jsonMember struct {
	key   string
	value any
}

// parseJSON returns valid JSON as a jsonObject, []any, string, json.Number, bool or nil.
func parseJSON(raw []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return nextValue(decoder)
}

func nextValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := jsonObject{}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			value, err := nextValue(decoder)
			if err != nil {
				return nil, err
			}
			object = append(object, jsonMember{key.(string), value})
		}
		_, err = decoder.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			value, err := nextValue(decoder)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = decoder.Token()
		return list, err
	}
	return token, nil
}

// appendJSON appends a value from parseJSON as JSON.
func appendJSON(to []byte, value any) ([]byte, error) {
	var err error
	switch v := value.(type) {
	case jsonObject:
		to = append(to, '{')
		for i := range v {
			if to, err = appendJSON(separated(to, i), v[i].key); err != nil {
				return nil, err
			}
			if to, err = appendJSON(append(to, ':'), v[i].value); err != nil {
				return nil, err
			}
		}
		return append(to, '}'), nil
	case []any:
		to = append(to, '[')
		for i := range v {
			if to, err = appendJSON(separated(to, i), v[i]); err != nil {
				return nil, err
			}
		}
		return append(to, ']'), nil
	}
	text, err := json.Marshal(value)
	return append(to, text...), err
}

// separated appends a comma before all elements but the first.
func separated(to []byte, i int) []byte {
	if i > 0 {
		to = append(to, ',')
	}
	return to
}
