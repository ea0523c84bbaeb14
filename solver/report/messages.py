"""Texts of the reports in the languages offered; the English text is the key. JSON keys stay English."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

Lang = Literal["en", "zh"]

ZH: dict[str, str] = {
    # request
    "limits": "约束",
    "none": "无",
    "candidates": "候选",
    "{kept} in {pools} kept; {dropped} dropped, {dominated} dominated": (
        "保留 {pools}的 {kept}；剔除 {dropped} 个，被支配 {dominated} 个"
    ),
    "1 candidate": "1 个候选",
    "{n} candidates": "{n} 个候选",
    "1 pool": "1 个资源池",
    "{n} pools": "{n} 个资源池",
    "{months} months": "{months} 个月",
    "objective {name}": "目标 {name}",
    # running fleet
    "Changes": "变更",
    "keep": "保留",
    "renew": "续租",
    "give up": "退租",
    "add": "新增",
    "{n} nodes change; the cheapest plan would save {money}": "变更 {n} 个节点；最便宜的方案可再省 {money}",
    "Fewest changes to the running fleet within {share} of the cheapest plan, proved": (
        "在最便宜方案的 {share} 以内对现有集群变更最少，已证明"
    ),
    "Few changes to the running fleet near the cheapest plan; not proved to be the fewest": (
        "接近最便宜方案且变更较少；未证明为最少"
    ),
    # survival
    "Survives": "容错",
    "no spare node is needed": "无需备用节点",
    "any one node may fail": "任一节点可失效",
    "any {n} nodes may fail": "任意 {n} 个节点可失效",
    "enough {share} of the time": "{share} 的时间内足够",
    # workloads left out
    "Served": "已满足",
    "Left out": "未满足",
    "nothing": "无",
    "left out": "未满足",
    "{share} served": "满足 {share}",
    "Best next": "下一步最优",
    "One mode": "单一计费",
    "One type": "单一型号",
    "{n} workloads": "{n} 个工作负载",
    "priority {number}: {value} of {wanted}": "优先级 {number}：{wanted} 中的 {value}",
    "proved to be the most": "已证明为最多",
    "at most {bound}": "至多 {bound}",
    "({share} served)": "（已满足 {share}）",
    "adding it: {extra}": "加上它：{extra}",
    "all in full: {extra}": "全部满足：{extra}",
    "{money} over the horizon": "全周期 {money}",
    "{money} a month": "每月 {money}",
    "{money} up front": "前期 {money}",
    "best found, not proved": "已知最优，未证明",
    "best alone is {mode}: {of} of priority {n}": "单用最好的是 {mode}：优先级 {n} 满足 {of}",
    "this plan serves {gain} more": "本方案多满足 {gain}",
    "best alone is {mode}: it serves as much": "单用最好的是 {mode}：满足程度相同",
    "for {money} ({share}) more": "但贵 {money}（{share}）",
    "no room for it in the budget beside what comes first": "优先项之后预算已不足",
    "the other limits leave no room for it, whatever is paid": "其他约束下无论花费多少都不可行",
    "no offer or server can do it": "没有可用的报价或服务器",
    "Most value within the limits, and the cheapest plan for it, proved": "约束内价值最大且成本最低，已证明",
    # bill
    "Item": "项目",
    "Qty": "数量",
    "Billing": "计费",
    "Per month": "月均",
    "Price": "单价",
    "Total": "合计",
    "Power": "功率",
    "TOTAL": "总计",
    "months {first} to {last}": "第 {first} 至 {last} 个月",
    "in {when}": "在 {when}",
    "in {n} of {total} load periods": "在 {total} 个负载时段中的 {n} 个",
    "{least} to {most} by load period": "按负载时段 {least} 至 {most}",
    "Up front {capex}; highest month {monthly}; {hour} per hour over the horizon.": (
        "前期投入 {capex}；最高月支出 {monthly}；全周期每小时 {hour}。"
    ),
    "Nameplate power at own sites: {it} IT, {facility} with cooling; {energy} drawn over the horizon (730 h a month).": (
        "自有机房铭牌功率：IT {it}，含冷却 {facility}；全周期实际用电 {energy}（每月 730 小时）。"
    ),
    # week
    "Mon": "一",
    "Tue": "二",
    "Wed": "三",
    "Thu": "四",
    "Fri": "五",
    "Sat": "六",
    "Sun": "日",
    "Runs": "运行",
    "In use": "利用率",
    "Each block is {hours} h; a run that comes less often than weekly keeps its hours free every week.": (
        "每格 {hours} 小时；不足每周一次的运行每周都为其留出时段。"
    ),
    "{starts}, {hours} h each on {n} of {offer}": "{starts}，每次 {hours} 小时，占用 {offer} 的 {n} 张卡",
    # cash by year, rent or buy
    "Months": "月份",
    "thousand {currency}": "千 {currency}",
    "million {currency}": "百万 {currency}",
    "up front": "前期",
    "{first} to {last}": "{first} 至 {last}",
    "Purchases": "购置",
    "Rental": "租赁",
    "Energy": "电费",
    "Maintenance": "维护",
    "Staff": "人员",
    "Other": "其他",
    "Value left": "残值",
    "Cumulative": "累计",
    "All rented": "全部租用",
    "All bought": "全部购买",
    "Break-even": "盈亏平衡",
    "the plan itself": "即本方案",
    "no plan: {why}": "无方案：{why}",
    "{capex} up front, {monthly} a month": "前期 {capex}，每月 {monthly}",
    "after {months} months": "{months} 个月后购买更省",
    "after {months} months, beyond the horizon": "{months} 个月后购买更省（超出周期）",
    "never by time: {why}": "时间上无平衡点：{why}",
    "(discounted at {rate} a year)": "（年贴现率 {rate}）",
    "by the hour: from {share} of the hours in use": "与按小时租用相比，使用率达 {share} 起购买更省",
    "by the hour renting is cheaper at any use": "按小时租用在任何使用率下都更省",
    # storage
    "Storage": "存储",
    "Size": "容量",
    "Lies on": "存放于",
    "Place": "地点",
    "Read": "读",
    "Write": "写",
    "Notes": "备注",
    "working copy": "工作副本",
    "master copy": "主副本",
    "drives of the nodes": "节点本地盘",
    "in {n} x {box}": "装于 {n} 台 {box}",
    "{n} x drive bay": "{n} 个盘位",
    "{n} x port {network}": "{n} 个 {network} 端口",
    "{n} ports {network}": "{n} 个 {network} 端口",
    "{height}U high": "高 {height}U",
    "paid with the TB": "价格已含在每 TB 单价中",
    # racks and circuits
    "{n} x node of up to {watts} W and {height}U": "{n} 个节点位，每个至多 {watts} W、{height}U",
    "{n} x node of up to {watts} W": "{n} 个节点位，每个至多 {watts} W",
    "{n} x place for storage of up to {watts} W and {height}U": "{n} 个存储位，每个至多 {watts} W、{height}U",
    "{n} x place for storage of up to {watts} W": "{n} 个存储位，每个至多 {watts} W",
    "{n} x place for a switch or box": "{n} 个交换机或设备位",
    "{n} operations/s": "{n} 次操作/s",
    "staged in {hours} h": "{hours} h 内装载",
    "{size} a month leave": "每月流出 {size}",
    # deployment
    "Deployment": "部署",
    "Mode": "方式",
    "Starts in": "就绪时间",
    "Isolation": "隔离",
    "Billed by": "计费粒度",
    "Least term": "最短租期",
    "Work per node": "每节点运维",
    "at once": "立即",
    "owned": "自有",
    "bought": "购置",
    # workloads
    "Workload": "工作负载",
    "Runs on": "运行于",
    "Precision": "精度",
    "Rate": "速率",
    "Headroom": "余量",
    "TTFT / TPOT": "首字 / 每字延迟",
    "Memory": "显存",
    "{n} GPUs": "{n} 张卡",
    "1 GPU": "1 张卡",
    "{n} replicas": "{n} 副本",
    "1 replica": "1 副本",
    "{n} nodes": "{n} 节点",
    "spare {gib} GiB": "余 {gib} GiB",
    "yours": "用户实测",
    "published": "公开实测",
    "model": "模型估算",
    "{share} of the time expected on demand at {price}": "预计 {share} 的时间改用按需，价格 {price}",
    "limit {watts} per GPU": "每卡限 {watts}",
    "each": "每副本",
    "in {hours} h": "用时 {hours} 小时",
    "{hours} h/mo": "每月 {hours} 小时",
    "Tokens": "词元成本",
    "{name}: {prices}; {cost} for {read} in, {written} out": "{name}：{prices}；共 {cost}，输入 {read}，输出 {written}",
    "{read} per million tokens in, {written} out": "每百万词元输入 {read}，输出 {written}",
    "{price} per million tokens": "每百万词元 {price}",
    "{share} of the time reads prompts": "{share} 的时间用于读取提示",
    # status
    "Cheapest plan, proved": "已证明为最低成本方案",
    "Optimal, proved": "已证明最优",
    "Feasible, at most {gap} above the optimum": "可行，至多比最优高 {gap}",
    "Feasible, at most {gap} below the optimum": "可行，至多比最优低 {gap}",
    "Feasible; how far from the optimum is not known": "可行；与最优的差距未知",
    "Feasible; there is no useful bound on how far it is from the optimum": "可行；没有有用的界可说明与最优的差距",
    "No plan: proved that none meets all limits": "无方案：已证明没有方案能满足全部约束",
    "No plan found before the search stopped": "搜索停止前未找到方案",
    "proved": "已证明",
    "gap reached": "达到差距要求",
    "time limit": "达到时限",
    "interrupted": "被中断",
    "no candidates": "没有候选",
    "objective": "目标值",
    "bound": "界",
    "gap": "差距",
    "stopped": "停止原因",
    "Binding": "紧约束",
    "Slack": "宽裕",
    "Runner-up": "次优方案",
    "no limit binds": "没有紧约束",
    "no limits were set": "未设约束",
    "without {what}: {summary}, {total} ({difference})": "不用 {what}：{summary}，{total}（{difference}）",
    "without {what}: {summary}": "不用 {what}：{summary}",
    "without {what}: no plan": "不用 {what}：无方案",
    "not proved the best of its kind": "未证明为同类最优",
    "not looked for": "未搜索",
    "Shared": "分时共用",
    "Beats the best single billing mode ({mode}) by {share}": "比最优的单一计费方式（{mode}）便宜 {share}",
    "The best single billing mode ({mode}) costs as little": "最优的单一计费方式（{mode}）同样便宜",
    "No single billing mode serves it all": "没有单一计费方式能满足全部需求",
    "No single billing mode was found to serve it all": "未找到能满足全部需求的单一计费方式",
    "Best found with a single billing mode ({mode})": "单一计费方式（{mode}）中找到的最优方案",
    "Beats the best single type of accelerator ({name}) by {share}": "比最优的单一加速卡型号（{name}）便宜 {share}",
    "The best single type of accelerator ({name}) costs as little": "最优的单一加速卡型号（{name}）同样便宜",
    "Best found with a single type of accelerator ({name})": "单一加速卡型号（{name}）中找到的最优方案",
    "One type of accelerator alone: none was found to serve it all in its share of the time": "单一加速卡型号：在限定时间内未找到能满足全部需求的方案",
    "No type of accelerator alone {can}": "没有任何单一加速卡型号{can}",
    "keeps the limits": "能满足各项限制",
    "can do all the work": "能承担全部工作",
    "of {n} that can do all the work": "{n} 种可承担全部工作的型号之中",
    "Sharing machines over time saves {share}": "分时共用机器节省 {share}",
    "Sharing machines over time saves nothing": "分时共用机器没有节省",
    "Without sharing machines over time there is no plan": "不分时共用机器则没有方案",
    "Without sharing machines over time no plan was found in its share of the time": "不分时共用机器：在所分配的时间内未找到方案",
    "Prices": "价格",
    "{prices} from {sources}": "{prices}，来自{sources}",
    "1 price": "1 个价格",
    "{n} prices": "{n} 个价格",
    "1 source": "1 个来源",
    "{n} sources": "{n} 个来源",
    "oldest {as_of} ({item}, {days} days)": "最旧 {as_of}（{item}，{days} 天）",
    "{n} undated": "{n} 个无日期",
    "starred prices are {kinds}": "带 * 的价格为 {kinds}",
    "Assumed": "假设",
    "Warnings": "警告",
    "Dropped": "剔除",
    "and 1 more reason": "另有 1 种原因",
    "and {n} more reasons": "另有 {n} 种原因",
    "Next": "下一步",
    # infeasible
    "Why": "原因",
    "Reason": "原因",
    "Candidates dropped": "剔除的候选数",
    "none was dropped": "未剔除任何候选",
    # catalogue
    "shown {n} of {total}": "显示 {n} / {total}",
}

TABLES: Mapping[Lang, Mapping[str, str]] = {"en": {}, "zh": ZH}


class Messages:
    """Look texts up: ``t("shown {n} of {total}", n=1, total=9)``."""

    def __init__(self, lang: Lang = "en") -> None:
        self.lang: Lang = lang
        self._table = TABLES[lang]

    def __call__(self, text: str, **values: object) -> str:
        found = self._table.get(text, text)
        return found.format(**values) if values else found


def default_lang(environ: Mapping[str, str] = os.environ) -> Lang:
    """Language of the environment (LC_ALL, LC_MESSAGES, LANG, in this order); English where not offered."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
