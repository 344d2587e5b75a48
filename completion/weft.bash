# SPDX-License-Identifier: Apache-2.0
# bash completion for weft
_weft() {
  local cur prev command i options
  COMPREPLY=()
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD - 1]}
  local model="--backend --ort --ep --threads -t --kv --context -c --precision --chunk --model-file --trust-links --no-cache
    --log --help"
  local decode="--greedy --temperature --temp --top-k --top-p --min-p --typical-p --repetition-penalty
    --presence-penalty --frequency-penalty --logit-bias --seed --stop --max-tokens -n --ignore-eos
    --logprobs --lookup"

  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  if [[ -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "run import inspect validate tokenize detokenize template exec logits verify bench
      cache providers --version --help" -- "$cur")
    return
  fi
  case $prev in
    --backend) mapfile -t COMPREPLY < <(compgen -W "native ort auto" -- "$cur"); return ;;
    --ep) mapfile -t COMPREPLY < <(compgen -W "CPU CUDA OpenVINO QNN TensorRT XNNPACK" -- "$cur"); return ;;
    --ort) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    --kv) mapfile -t COMPREPLY < <(compgen -W "f32 f16 q8" -- "$cur"); return ;;
    --precision) mapfile -t COMPREPLY < <(compgen -W "exact fast" -- "$cur"); return ;;
    --log) mapfile -t COMPREPLY < <(compgen -W "error warning info debug" -- "$cur"); return ;;
    --threads | -t | --context | -c | --chunk | --lookup | --temperature | --temp | --top-k | --top-p | --min-p | --typical-p | \
      --repetition-penalty | --presence-penalty | --frequency-penalty | --logit-bias | --seed | --stop | --max-tokens | \
      --logprobs | --ids | --now | --system | --pair) return ;;
    -p) [[ $command == run || $command == bench ]] && return ;;
    --output-dir | --dump) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
  esac
  case $command in
    run) options="-p --prompt -f --file --messages --ids --raw --system --json --profile $decode $model" ;;
    import) options="-o --output --portable --dequantize --help" ;;
    inspect) options="--json --dot $model" ;;
    validate) options="--strict --json --trust-links --help" ;;
    tokenize) options="--pair --no-special --offsets --json --help" ;;
    detokenize) options="--skip-special --help" ;;
    template) options="--template --now --help" ;;
    exec)
        options="--input -i --output-dir -o --profile --ids --max-tokens -n --seed --temperature --temp --top-k --top-p --min-p
            --greedy --ignore-eos --session --override $model"
        ;;
    logits) options="--ids --output -o $model" ;;
    verify) options="--input -i --dump --reference --tolerance --seed --tokens -n $model" ;;
    bench) options="-p --prompt -n --decode -d --depth --json --profile $model" ;;
    cache) mapfile -t COMPREPLY < <(compgen -W "list clear --help" -- "$cur"); return ;;
    providers) options="--json --ort --ep --help" ;;
  esac
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _weft weft
